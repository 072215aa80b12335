// The conversation with the server: one question at a time, and the newest one counts.

const PATIENCE = 600; // ms after which a solution in the making is given up for a newer question

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  return [response.status, await response.json()];
}

/** Asks for solutions; `on` has question() and is told busy(yes), slow(), answered(data), refused(why), gone(). */
export class Conversation {
  constructor(on) {
    this.on = on;
    this.running = null; // {since, control}
    this.again = false; // there is something newer to ask
  }

  /** Soon: at once if nothing is in the making, else when that is done, or instead of it if it is slow. */
  ask() {
    clearTimeout(this.timer);
    this.on.busy(true);
    this.again = Boolean(this.running);
    const age = this.running ? performance.now() - this.running.since : PATIENCE;
    this.timer = setTimeout(() => this.send(), Math.max(25, PATIENCE - age));
  }

  /** Forget what is being asked. */
  stop() {
    clearTimeout(this.timer);
    this.again = false;
    this.running?.control.abort();
    this.running = null;
    this.on.busy(false);
  }

  async send() {
    clearTimeout(this.timer);
    this.running?.control.abort();
    const mine = { since: performance.now(), control: new AbortController() };
    this.running = mine;
    this.again = false;
    const slow = setTimeout(() => { if (this.running === mine) this.on.slow(); }, 150);
    const [status, data] = await post("/api/solve", this.on.question(), mine.control.signal).catch(() => [0, null]);
    clearTimeout(slow);
    const busyElsewhere = status === 503 || status === 409;
    if (busyElsewhere) await new Promise((done) => setTimeout(done, 500));
    if (this.running !== mine) return; // stopped, or replaced by a newer question
    this.running = null;
    if (status === 200) this.on.answered(data);
    else if (status === 0) this.on.gone();
    else if (!busyElsewhere) this.on.refused(data.error ?? "The server could not answer.");
    if (this.again || busyElsewhere) this.ask();
    else this.on.busy(false);
  }
}

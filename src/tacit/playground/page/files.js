// Saving, loading and copying a map.

import { element } from "./boards.js";
import { post } from "./talk.js";
import { $, toast } from "./ui.js";

const FILE_LIMIT = 1_000_000;

/** Make the buttons work. `scene` has current() and replace(next), which can be undone. */
export function startFiles(scene) {
  $("save").onclick = () => {
    const name = (scene.current().name || "map").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "map";
    const address = URL.createObjectURL(new Blob([`${JSON.stringify(scene.current())}\n`], { type: "application/json" }));
    element("a", { href: address, download: `tacit-${name}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  $("load").onclick = () => $("file").click();
  $("file").onchange = async () => {
    const [file] = $("file").files;
    $("file").value = "";
    if (file) await open(file);
  };

  async function open(file) {
    const wrong = (why) => toast(`${file.name} was not loaded: ${why}`);
    if (file.size > FILE_LIMIT) return wrong("it is too large for a map.");
    let data;
    try { data = JSON.parse(await file.text()); } catch { return wrong("it is not a JSON file."); }
    try {
      const [status, checked] = await post("/api/check", { scene: data });
      if (status !== 200) return wrong(checked.error);
      scene.replace(checked.scene);
      toast(`${file.name} is loaded.`);
    } catch { wrong("the server does not answer."); }
  }
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });

  $("copy").onclick = async () => {
    const { moves, rows } = scene.current();
    const text = `moves: ${moves}\n\n${rows.join("\n")}\n`;
    try {
      await navigator.clipboard.writeText(text);
      toast("The map is copied. Save it as map.txt and try: tacit demo --layout map.txt");
    } catch { toast("The browser does not allow copying here."); }
  };
}

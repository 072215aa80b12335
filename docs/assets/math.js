// Formulas: what Markdown marked as math is drawn by KaTeX, which lies beside this file.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const source = element.textContent.trim();
    const tex = source.replace(/^\\[([]/, "").replace(/\\[)\]]$/, "");
    katex.render(tex, element, { displayMode: source.startsWith("\\["), throwOnError: false });
  }
});

// What a person who cannot see the page well would stumble over. Returns complaints.
// Run inside the page by the browser tests.
const complaints = [];
const say = (what, node) =>
  complaints.push(`${what}: ${node ? node.outerHTML.slice(0, 120) : ""}`);
const visible = (node) => node.checkVisibility({ visibilityProperty: true });

if (!document.documentElement.lang) say("no language");
if (!document.title.trim()) say("no title");
if (document.querySelectorAll("main").length !== 1) say("not one main");

const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(visible);
if (headings.filter((h) => h.tagName === "H1").length !== 1) say("not one h1");
let level = 0;
for (const heading of headings) {
  const now = Number(heading.tagName[1]);
  if (now > level + 1) say("a heading level is skipped", heading);
  if (!heading.textContent.trim()) say("an empty heading", heading);
  level = now;
}

const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
if (new Set(ids).size !== ids.length) say("an id is there twice");
for (const name of ["for", "aria-labelledby", "aria-describedby"]) {
  for (const node of document.querySelectorAll(`[${name}]`)) {
    for (const id of node.getAttribute(name).split(/\s+/)) {
      if (!ids.includes(id)) say(`${name} leads nowhere`, node);
    }
  }
}
for (const node of document.querySelectorAll("img:not([alt])")) say("no alt", node);
for (const node of document.querySelectorAll("th:not([scope])")) say("no scope", node);
for (const node of document.querySelectorAll("[tabindex]")) {
  if (Number(node.getAttribute("tabindex")) > 0) say("a tab order of its own", node);
}
for (const node of document.querySelectorAll("input, select, textarea")) {
  if (visible(node) && node.type !== "hidden" && !node.labels.length) say("no label", node);
}

// Contrast, as WCAG 2 computes it.
const numbers = (color) => color.match(/[\d.]+/g).map(Number);
const luminance = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map((c) => {
    const share = c / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode.parentElement;
  if (!texts.currentNode.textContent.trim() || !visible(node)) continue;
  if (["SCRIPT", "STYLE", "TITLE", "title"].includes(node.tagName)) continue;
  const style = getComputedStyle(node);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const pair = [luminance(numbers(style.color)), luminance(behind(node))];
  const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, node);
}
// Bars and borders of fields must stand out from what is behind them, too.
const parts = [...document.querySelectorAll(".fill, input:not([type=hidden]), select")];
for (const node of parts.filter(visible)) {
  const style = getComputedStyle(node);
  const own = node.matches(".fill") ? style.fill : style.borderTopColor;
  const pair = [luminance(numbers(own)), luminance(behind(node.parentElement))];
  const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  if (ratio < 3) say(`contrast of a shape ${ratio.toFixed(2)}`, node);
}

if (document.documentElement.scrollWidth > innerWidth) say("wider than the screen");
return complaints;

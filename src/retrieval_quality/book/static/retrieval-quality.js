// Heat maps that can be read cell by cell: pointer, tap, or arrow keys. Without scripts the picture
// and its table of numbers are still there. Boxes that scroll say so.
(() => {
  "use strict";

  // A cell is [left, top, width, height, text, row, column]: its place in percent of the image, its
  // reading, and its place in the grid, which may be drawn in several strips.
  function explore(picture) {
    const cells = JSON.parse(picture.dataset.cells);
    if (!cells.length) return;
    const image = picture.querySelector("img");
    const mark = document.createElement("div");
    mark.className = "rq-cell";
    mark.hidden = true;
    picture.append(mark);
    const reading = document.createElement("p");
    reading.className = "rq-reading";
    reading.setAttribute("role", "status");
    reading.textContent = "Point at a cell, tap it, or use the arrow keys.";
    picture.parentElement.after(reading);
    picture.tabIndex = 0;
    picture.setAttribute("role", "application");
    picture.setAttribute("aria-label", "cells of the picture; arrow keys move between them");
    let at = -1;

    function show(index) {
      at = index;
      const [left, top, width, height, text] = cells[index];
      Object.assign(mark.style, {
        left: `${left}%`, top: `${top}%`, width: `${width}%`, height: `${height}%`,
      });
      mark.hidden = false;
      reading.textContent = text;
    }

    function under(event) {
      const box = image.getBoundingClientRect();
      const x = (100 * (event.clientX - box.left)) / box.width;
      const y = (100 * (event.clientY - box.top)) / box.height;
      return cells.findIndex(([l, t, w, h]) => x >= l && x < l + w && y >= t && y < t + h);
    }

    // As in a table: arrows go one cell along the row or column, also from strip to strip; Home and
    // End go to the ends of the row, with Control to the first and the last cell of all.
    const place = (index) => [cells[index][5], cells[index][6]];
    const last = (axis) => Math.max(...cells.map((cell) => cell[5 + axis]));
    const find = (row, column) => cells.findIndex((c) => c[5] === row && c[6] === column);

    function target(event) {
      const [row, column] = place(at);
      switch (event.key) {
        case "ArrowLeft": return find(row, column - 1);
        case "ArrowRight": return find(row, column + 1);
        case "ArrowUp": return find(row - 1, column);
        case "ArrowDown": return find(row + 1, column);
        case "Home": return find(event.ctrlKey ? 0 : row, 0);
        case "End": return find(event.ctrlKey ? last(0) : row, last(1));
        default: return null;
      }
    }

    function point(event) {
      const index = under(event);
      if (index >= 0) show(index);
    }
    picture.addEventListener("pointermove", point);
    picture.addEventListener("click", point);
    picture.addEventListener("focus", () => { if (at < 0) show(0); });
    picture.addEventListener("keydown", (event) => {
      if (event.altKey || event.metaKey) return;
      const index = at < 0 ? 0 : target(event);
      if (index === null) return;
      event.preventDefault();
      if (index < 0) return;
      show(index);
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }

  // Say of a box that scrolls what cannot be seen: scroll bars are hidden on phones.
  function announce(box) {
    const more = document.createElement("p");
    more.className = "rq-more";
    more.hidden = true;
    box.before(more);
    new ResizeObserver(() => {
      const wide = box.scrollWidth > box.clientWidth + 1;
      const high = box.scrollHeight > box.clientHeight + 1;
      const ways = [wide && "sideways", high && "down"].filter(Boolean);
      more.textContent = `Scroll ${ways.join(" and ")} to see all of it.`;
      more.hidden = !ways.length;
    }).observe(box);
  }

  document.querySelectorAll(".rq-picture[data-cells]").forEach(explore);
  document.querySelectorAll(".rq-view, .rq-scroll").forEach(announce);
})();

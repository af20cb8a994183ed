// Heat maps that can be read cell by cell: pointer, tap, or arrow keys. Without scripts the picture
// and its table of numbers are still there. Boxes that scroll say so.
(() => {
  "use strict";

  function explore(picture) {
    const cells = JSON.parse(picture.dataset.cells);
    if (!cells.length) return;
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
      const box = picture.getBoundingClientRect();
      const x = (100 * (event.clientX - box.left)) / box.width;
      const y = (100 * (event.clientY - box.top)) / box.height;
      return cells.findIndex(([l, t, w, h]) => x >= l && x < l + w && y >= t && y < t + h);
    }

    // The nearest cell in the direction of an arrow key.
    function beside(dx, dy) {
      const centre = ([l, t, w, h]) => [l + w / 2, t + h / 2];
      const [x, y] = centre(cells[at]);
      let best = at, least = Infinity;
      cells.forEach((cell, index) => {
        const [cx, cy] = centre(cell);
        const along = (cx - x) * dx + (cy - y) * dy;
        const across = Math.abs((cx - x) * dy) + Math.abs((cy - y) * dx);
        if (along > 0.01 && along + 10 * across < least) {
          least = along + 10 * across;
          best = index;
        }
      });
      return best;
    }

    function point(event) {
      const index = under(event);
      if (index >= 0) show(index);
    }
    picture.addEventListener("pointermove", point);
    picture.addEventListener("click", point);
    picture.addEventListener("focus", () => { if (at < 0) show(0); });
    picture.addEventListener("keydown", (event) => {
      const step = {
        ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
      }[event.key];
      if (!step) return;
      event.preventDefault();
      show(at < 0 ? 0 : beside(...step));
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

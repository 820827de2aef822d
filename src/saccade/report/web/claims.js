/* The claims: sort by a column, filter by statement, verdict and words, open a row. The rows are in the page already. */
const Claims = (() => {
  "use strict";
  const { html } = ChartFrame;
  const place = (id) => document.getElementById(id);
  let [table, body, rows, claims] = [null, null, [], []];
  const NOTHING = { kind: "", statement: "", against: "", words: "" };
  const chosen = { ...NOTHING };
  let onOpen = () => {};
  let onFilter = () => {}; // called with the place of each claim that is shown

  const detailOf = (row) => (row.nextElementSibling?.classList.contains("detail") ? row.nextElementSibling : null);

  function filter() {
    const words = chosen.words.toLowerCase().split(/\s+/).filter(Boolean);
    const found = new Set();
    for (const row of rows) {
      const claim = claims[Number(row.dataset.claim)];
      const { key, title } = claim.statement;
      const content = `${claim.label} ${claim.sentence} ${key} ${title} ${claim.result}`.toLowerCase();
      const isShown = (!chosen.kind || claim.kind === chosen.kind) && (!chosen.statement || key === chosen.statement)
        && (!chosen.against || claim.against === chosen.against) && words.every((word) => content.includes(word));
      row.hidden = !isShown;
      const detail = detailOf(row);
      if (detail) detail.hidden = !isShown;
      if (isShown) found.add(Number(row.dataset.claim));
    }
    place("claims-none").hidden = found.size > 0;
    table.hidden = found.size === 0;
    sayShown(found.size);
    onFilter(found);
    for (const tile of document.querySelectorAll(".tile")) tile.setAttribute("aria-pressed", String(tile.dataset.kind === chosen.kind));
  }

  /** How many claims are shown, by which filters, and the way back. */
  function sayShown(count) {
    const filters = [...document.querySelectorAll("[data-filter]")];
    for (const input of filters) input.classList.toggle("filtering", input.value !== "");
    const said = filters.filter(({ value }) => value !== "").map(({ value, selectedOptions: [option] = [] }) => option?.textContent ?? `“${value}”`);
    place("claims-count").textContent = `${count} of ${rows.length} claims`;
    place("claims-why").textContent = said.length ? `: ${said.join(", ")}` : "";
    place("claims-all").hidden = !said.length;
  }

  /** Verdicts go by kind, everything else by its words, numbers in them by size. */
  const keyOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;

  function sort(head, column) {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const keyed = rows.map((row) => ({ row, detail: detailOf(row), key: keyOf(row, column) }));
    keyed.sort((a, b) => sign * a.key.localeCompare(b.key, undefined, { numeric: true }));
    for (const { row, detail } of keyed) body.append(...(detail ? [row, detail] : [row]));
  }

  /** Open or close the row of a claim. */
  function toggle(row, open = !detailOf(row)) {
    const button = row.querySelector(".opener");
    button.setAttribute("aria-expanded", String(open));
    const detail = detailOf(row);
    if (!open) return detail?.remove();
    if (detail) return undefined;
    const line = html("tr", "detail");
    row.after(line);
    const cell = html("td", "", undefined, line);
    cell.colSpan = row.cells.length;
    return onOpen(cell, claims[Number(row.dataset.claim)]);
  }

  /** Every claim, or all of one kind. */
  function showAll(kind = "") {
    Object.assign(chosen, NOTHING, { kind });
    for (const input of document.querySelectorAll("[data-filter]")) input.value = chosen[input.dataset.filter];
    filter();
  }

  /** Show the row of a claim, whatever is filtered. @param {number} claim its place */
  function reveal(claim) {
    showAll();
    place("claims-list").open = true;
    const row = rows.find((other) => Number(other.dataset.claim) === claim);
    toggle(row, true);
    row.scrollIntoView({ block: "center" });
    row.querySelector(".opener").focus({ preventScroll: true });
  }

  function addOpener(row) {
    const words = row.querySelector(".claim-text, .opener");
    const button = html("button", "opener", words.textContent);
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    words.replaceWith(button);
    button.addEventListener("click", () => toggle(row));
  }

  /** The claims of one result as a table of their own. @param {string} name */
  function copyOf(name) {
    const copy = html("table", "claims-table");
    copy.append(table.tHead.cloneNode(true));
    for (const cell of copy.tHead.rows[0].cells) { cell.textContent = cell.textContent; cell.removeAttribute("aria-sort"); }
    const own = html("tbody", "", undefined, copy);
    for (const row of rows.filter((other) => claims[Number(other.dataset.claim)].result === name)) {
      const line = row.cloneNode(true);
      line.removeAttribute("id");
      line.hidden = false;
      own.append(line);
      addOpener(line);
    }
    return copy;
  }

  function addSorter(head, column) {
    const button = html("button", "sorter", head.textContent);
    button.type = "button";
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(head, column));
  }

  function addFilters() {
    for (const [filtered, nameOf] of [["statement", (claim) => claim.statement.key], ["against", (claim) => claim.against]]) {
      const names = [...new Set(claims.map(nameOf))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
      for (const name of names) document.querySelector(`[data-filter="${filtered}"]`).append(new Option(name, name));
    }
    for (const input of document.querySelectorAll("[data-filter]")) {
      input.addEventListener("input", () => { chosen[input.dataset.filter] = input.value; filter(); });
    }
    for (const tile of document.querySelectorAll(".tile")) {
      tile.addEventListener("click", () => {
        const kind = chosen.kind === tile.dataset.kind ? "" : tile.dataset.kind;
        showAll(kind);
        if (kind) bringIntoView();
      });
    }
  }

  /** What a tile filtered fills the window, from the filters on; the way back has the focus. */
  function bringIntoView() {
    place("claims-list").open = true;
    place("claims-list").scrollIntoView();
    place("claims-all").focus({ preventScroll: true });
  }

  /** @param {Object[]} given the claims, in the order of the rows @param {(cell: Element, claim: Object) => void} open fills an opened row */
  function attach(given, open) {
    [claims, onOpen, table] = [given, open, place("claims-table")];
    if (!table) return;
    [body, rows] = [table.tBodies[0], [...table.tBodies[0].rows]];
    rows.forEach(addOpener);
    [...table.tHead.rows[0].cells].forEach(addSorter);
    addFilters();
    place("claims-all").addEventListener("click", () => showAll());
    filter();
  }

  /** @param {(found: Set<number>) => void} listen is told the places of the claims that are shown, now and at every filter */
  function follow(listen) {
    onFilter = listen;
    filter();
  }

  return Object.freeze({ attach, copyOf, follow, reveal });
})();

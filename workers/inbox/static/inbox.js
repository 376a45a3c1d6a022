// The pages work without this. With it times are local, and what is asked follows what happens.
"use strict";
(() => {
  const words = (seconds) => {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const parts = [];
    for (const [name, size] of units) {
      if (seconds >= size || (name === "s" && !parts.length)) {
        parts.push(`${Math.floor(seconds / size)} ${name}`);
        seconds %= size;
      }
    }
    return parts.slice(0, 2).join(" ");
  };

  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const showTimes = (root) => {
    for (const time of root.querySelectorAll("time:not([title])")) {
      time.title = time.textContent;
      time.textContent = local.format(new Date(time.dateTime));
    }
    for (const left of root.querySelectorAll("[data-until]")) {
      const seconds = (new Date(left.dataset.until) - Date.now()) / 1000;
      left.textContent = seconds > 0 ? `${words(seconds)} left` : "the deadline has passed";
      left.title = local.format(new Date(left.dataset.until));
      left.classList.toggle("soon", seconds < 3600);
    }
  };
  showTimes(document);
  setInterval(() => showTimes(document), 1000);

  // A form is sent once, however often somebody clicks.
  document.addEventListener("submit", (event) => {
    setTimeout(() => event.target.querySelectorAll("button").forEach((button) => { button.disabled = true; }), 0);
  });
  addEventListener("pageshow", () => document.querySelectorAll("button:disabled").forEach((button) => { button.disabled = false; }));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const cards = [...document.querySelectorAll(".card")];
    const at = cards.indexOf(document.activeElement && document.activeElement.closest(".card"));
    if (event.key === "/" && document.querySelector("input[type=search]")) {
      event.preventDefault();
      document.querySelector("input[type=search]").focus();
    } else if (event.key === "j" || event.key === "k") {
      const next = cards[event.key === "j" ? at + 1 : Math.max(0, at - 1)];
      if (next) { next.tabIndex = -1; next.focus(); }
    }
  });

  const live = document.getElementById("live");
  // What was told is told once: whoever loads the page again does not read it as news. What is kept by the server is
  // followed, so its address stays.
  const address = location.href;
  const forgetTold = () => {
    const place = new URL(location.href);
    if (!place.searchParams.has("told") || document.querySelector(".told.accepted")) return;
    place.searchParams.delete("told");
    history.replaceState(null, "", place);
  };
  forgetTold();
  const single = document.querySelector(".card.single[data-card]");
  if (!(live || single) || !window.EventSource) return;

  const isInUse = (card) => card.contains(document.activeElement)
    || [...card.querySelectorAll("input:not([type=hidden]), textarea")].some((field) => field.value !== field.defaultValue);

  const loaded = async (from) => {
    const answer = await fetch(from, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    return [answer.status, new DOMParser().parseFromString(await answer.text(), "text/html")];
  };

  // What became of its question, by its own page; empty while it is asked, or where nobody says.
  const became = async (card) => {
    const [status, page] = await loaded(card.dataset.address);
    if (status === 404) return page.querySelector(".panel p").textContent;
    const now = page.querySelector(".card.single");
    return now && now.dataset.version !== card.dataset.version ? "It asks something else now: load the page again." : "";
  };

  const isGone = (card, text) => {
    card.classList.add("gone");
    card.querySelectorAll("button").forEach((button) => { button.disabled = true; });
    const note = document.createElement("p");
    note.className = "notice";
    note.setAttribute("role", "status");
    note.textContent = text;
    card.append(note);
  };

  const isGoneFromList = (card) => {
    if (card.classList.contains("gone")) return;
    isGone(card, "This is not asked any more: somebody answered, or it is over.");
    became(card).then((text) => { card.querySelector(":scope > .notice").append(` ${text}`); }, () => {});
  };

  // What somebody is at stays under their hands: a card that has not changed is kept, and one in use is never taken away.
  const mergeCards = (old, fresh) => {
    const known = new Map([...old.children].map((card) => [card.dataset.card, card]));
    const wanted = [...fresh.children].map((card) => {
      const before = known.get(card.dataset.card);
      known.delete(card.dataset.card);
      if (before && before.dataset.version === card.dataset.version && !before.classList.contains("gone")) return before;
      if (before && isInUse(before)) { isGoneFromList(before); return [before, card]; }
      return card;
    }).flat();
    const inUse = [...known.values()].filter(isInUse);
    inUse.forEach(isGoneFromList);
    const keep = new Set([...inUse, ...wanted]);
    for (const card of [...old.children]) if (!keep.has(card)) card.remove();
    // A card that is in use is not moved, or it would lose the focus.
    let place = old.firstElementChild;
    for (const card of [...inUse, ...wanted]) {
      if (card === place) { place = place.nextElementSibling; continue; }
      if (card.parentElement === old && isInUse(card)) continue;
      old.insertBefore(card, place);
    }
  };

  const signedIn = (root) => root.querySelector(".person")?.title;

  let running = false, again = false;
  const refresh = async () => {
    if (running) { again = true; return; }
    running = true;
    try {
      const [, page] = await loaded(address);
      const fresh = page.getElementById("live");
      if (!fresh) { location.reload(); return; }
      for (const part of [".tellings", ".head", ".empty", ".pages"]) {
        const before = live.querySelector(part), after = fresh.querySelector(part);
        if (before && after) before.replaceWith(after);
        else if (before) before.remove();
        else if (after && part === ".pages") live.append(after);
        else if (after && part === ".empty") live.querySelector(".cards").before(after);
      }
      mergeCards(live.querySelector(".cards"), fresh.querySelector(".cards"));
      // The cards that were kept are sent with the new token too, since the old one ends after some hours; but by nobody
      // else than the page says who is signed in.
      const token = page.querySelector("input[name=form]");
      if (token && signedIn(page) === signedIn(document)) document.querySelectorAll("input[name=form]").forEach((field) => { field.value = token.value; });
      live.dataset.version = fresh.dataset.version;
      document.title = page.title;
      showTimes(live);
      forgetTold();
    } catch {
      // The stream says when there is something to come back for.
    } finally {
      running = false;
      if (again) { again = false; refresh(); }
    }
  };

  const lookAtSingle = async () => {
    const text = await became(single).catch(() => "");
    if (text && !single.classList.contains("gone")) isGone(single, text);
  };

  const follow = () => {
    const stream = new EventSource(`/inbox/events?task=${encodeURIComponent(single?.dataset.card ?? "")}`);
    stream.addEventListener("standing", (event) => {
      const told = JSON.parse(event.data);
      if (live && told.version !== live.dataset.version) refresh();
      if (single && told.question !== single.dataset.version) lookAtSingle();
    });
    return stream;
  };
  let stream = follow();
  addEventListener("pagehide", () => stream.close());
  // A browser keeps few streams open at once, and questions are many: those of pages that nobody sees are closed.
  if (single) document.addEventListener("visibilitychange", () => {
    stream.close();
    if (!document.hidden) stream = follow();
  });
  if (live) setInterval(() => { if (live.querySelector(".told.accepted")) refresh(); }, 3000);
})();

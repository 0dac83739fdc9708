// What a page can do more with a script: times in the viewer's zone, live values in their places, copying. All pages work without it.
"use strict";

const once = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

// The zone of times that are shown once, as in long lists: "local", or "UTC" as without a script.
const clock = { zone: "local" };
try { clock.zone = localStorage.getItem("penstock-clock") || clock.zone; } catch { /* storage is off: the choice lasts for the page */ }

function localTime(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  if (time.closest("[data-rows]")) {
    time.dataset.utc ||= time.textContent;
    time.textContent = clock.zone === "UTC" ? time.dataset.utc : once.format(at);
    time.title = time.dateTime;
    return;
  }
  let beside = time.nextElementSibling;
  if (!beside || !beside.classList.contains("zone")) {
    beside = document.createElement("span");
    beside.className = "zone";
    time.after(beside);
  }
  beside.textContent = zone.format(at);
}

function button(text, on) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet";
  made.textContent = text;
  made.addEventListener("click", () => on(made));
  return made;
}

function switchable(rows) {
  const text = () => (clock.zone === "UTC" ? "Times: UTC" : "Times: local");
  document.querySelector(".bar").append(button(text(), (made) => {
    clock.zone = clock.zone === "UTC" ? "local" : "UTC";
    try { localStorage.setItem("penstock-clock", clock.zone); } catch { /* as above */ }
    made.textContent = text();
    rows.querySelectorAll("time").forEach(localTime);
  }));
}

// New messages come into a list by themselves: at most a page of them each few seconds, and the list keeps the newest.
const FOLLOW_MS = 2000;
const FOLLOWED_ROWS = 200;
const FOLLOWED_PAGE = 50;

function followed(rows, live) {
  const newer = document.querySelector("[data-newer]");
  const counter = newer.querySelector("[data-live]");
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  let follows = false;
  let loads = false;

  async function load() {
    const count = Number(counter.textContent.replaceAll(",", ""));
    if (!follows || loads || !count) return;
    loads = true;
    try {
      const from = new URL(newer.href);
      if (count > FOLLOWED_PAGE) from.searchParams.delete("after");
      const answer = await fetch(from, { redirect: "error" });
      if (!answer.ok) throw new Error(`the console answered ${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("[data-newer]");
      if (!next) throw new Error("the topic cannot be read now");
      const came = [...page.querySelectorAll("[data-rows] tbody tr:has(time)")];
      if (came.length) rows.querySelector("tr:not(:has(time))")?.remove();
      rows.prepend(...came.map((row) => document.adoptNode(row)));
      came.forEach((row) => {
        row.querySelectorAll("time").forEach(localTime);
        row.querySelectorAll("[data-copy]").forEach(copyable);
      });
      [...rows.children].slice(FOLLOWED_ROWS).forEach((row) => row.remove());
      newer.href = next.getAttribute("href");
      counter.textContent = next.querySelector("[data-live]").textContent;
      said.textContent = count > FOLLOWED_PAGE ? `more than ${FOLLOWED_PAGE} came at once: some are left out` : "";
      live.reopen(page.body.dataset.liveUrl);
    } catch (error) {
      said.textContent = `not followed: ${error.message}`;
      follows = false;
      toggle.textContent = "Follow";
    }
    setTimeout(() => { loads = false; load(); }, FOLLOW_MS);
  }

  const toggle = button("Follow", () => {
    follows = !follows;
    toggle.textContent = follows ? "Pause" : "Follow";
    said.textContent = "";
    load();
  });
  newer.after(" ", toggle, said);
  new MutationObserver(load).observe(counter, { childList: true, characterData: true, subtree: true });
}

function draw(chart, lines) {
  chart.replaceChildren(...lines.map((points) => {
    const line = document.createElementNS(chart.namespaceURI, "polyline");
    line.setAttribute("points", points);
    return line;
  }));
}

function put(place, value) {
  if (value.lines) {
    draw(place, value.lines);
  } else if (typeof value === "object") {
    place.dateTime = value.time;
    place.textContent = value.text;
    localTime(place);
  } else if (place.textContent !== value) {
    place.textContent = value;
  }
}

function watch(url) {
  const status = document.getElementById("live-status");
  const places = new Map();
  for (const place of document.querySelectorAll("[data-live]")) {
    places.set(place.dataset.live, [...(places.get(place.dataset.live) || []), place]);
  }
  let events = null;
  const tell = (text) => { if (status.textContent !== text) status.textContent = text; };

  function open() {
    events = new EventSource(url);
    events.addEventListener("values", (event) => {
      for (const [key, value] of Object.entries(JSON.parse(event.data))) {
        for (const place of places.get(key) || []) put(place, value);
      }
      tell("live");
    });
    events.addEventListener("trouble", (event) => tell(`not live: ${JSON.parse(event.data).message}`));
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) return tell("not live: no connection to the console");
      // It was refused, and a browser does not ask again by itself.
      close();
      return tell("not live: the console takes no more watched pages from you, or you are logged out; reload the page");
    });
  }

  function close() {
    if (events) events.close();
    events = null;
  }

  // A page that nobody sees costs nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!events) open();
  });
  window.addEventListener("pagehide", close);
  if (!document.hidden) open();

  return {
    reopen(other) {
      url = other;
      close();
      if (!document.hidden) open();
    },
  };
}

function copyable(code) {
  if (!navigator.clipboard) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  });
  code.after(" ", button);
}

document.querySelectorAll("time").forEach(localTime);
document.querySelectorAll("[data-copy]").forEach(copyable);
const live = document.body.dataset.liveUrl ? watch(document.body.dataset.liveUrl) : null;
const list = document.querySelector("[data-rows]");
if (list) {
  switchable(list);
  if (live) followed(list.querySelector("tbody"), live);
}

// What a page can do more with a script: times in the viewer's zone, live values in their places, copying. All pages work without it.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localTime(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  let beside = time.nextElementSibling;
  if (!beside || !beside.classList.contains("zone")) {
    beside = document.createElement("span");
    beside.className = "zone";
    time.after(beside);
  }
  beside.textContent = zone.format(at);
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
if (document.body.dataset.liveUrl) watch(document.body.dataset.liveUrl);

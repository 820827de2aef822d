/* The stories on the page: a button for each, and a panel that says what to look at as the run goes on. */
const StoryPanel = (() => {
  "use strict";
  const { html } = ChartFrame;

  function button(parent, words, onClick) {
    const made = html("button", "", words, parent);
    made.type = "button";
    made.addEventListener("click", onClick);
    return made;
  }

  /** @param {{list: Element, panel: Element}} places @param {{onTell: (story: Object) => void, onLeave: () => void}} listeners */
  function create({ list, panel }, { onTell, onLeave }) {
    let told = null;
    let points = [];
    const buttons = Stories.ALL.map((story) => [story, button(list, story.title, () => onTell(story))]);

    function show(story) {
      told = story ?? null;
      panel.hidden = !told;
      panel.replaceChildren();
      for (const [one, made] of buttons) made.setAttribute("aria-pressed", String(one === told));
      if (!told) return;
      html("h2", "", told.title, panel);
      html("p", "", told.text, panel);
      const look = html("ol", "", undefined, panel);
      points = told.look.map((point) => html("li", "", point.say, look));
      const line = html("div", "story-buttons", undefined, panel);
      const next = Stories.ALL[Stories.ALL.indexOf(told) + 1];
      button(line, "Play again", () => onTell(story));
      if (next) button(line, `Next: ${next.title}`, () => onTell(next));
      button(line, "Leave the story", onLeave);
    }

    /** Marks the point to look at. */
    function follow(times, now) {
      if (!told) return;
      const at = Stories.pointAt(told, times, now);
      points.forEach((point) => point.removeAttribute("aria-current"));
      points[at]?.setAttribute("aria-current", "step");
    }
    return { show, follow };
  }

  return Object.freeze({ create });
})();

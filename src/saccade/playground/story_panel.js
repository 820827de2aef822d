/* The stories on the page: a button for each, and one line over the stage that says what to look at now.
 *
 * Without a story the line says which stage the run is in.
 */
const StoryPanel = (() => {
  "use strict";
  const { html } = ChartFrame;

  function button(parent, words, onClick) {
    const made = html("button", "", words, parent);
    made.type = "button";
    made.addEventListener("click", onClick);
    return made;
  }

  /**
   * @param {{lists: Map<string, Element>, caption: Element, next: Element}} places @param {{onTell: (story: Object) => void}} listeners
   * @returns {{show(story: ?Object): void, follow(times: Object, now: number, otherwise: string): void}}
   */
  function create({ lists, caption, next }, { onTell }) {
    let told = null;
    const buttons = Stories.ALL.map((story) => [story, button(lists.get(story.model), story.title, () => onTell(story))]);
    next.addEventListener("click", () => onTell(told ? Stories.after(told) : Stories.ALL[0]));

    function show(story) {
      told = story ?? null;
      for (const [one, made] of buttons) made.setAttribute("aria-pressed", String(one === told));
      next.textContent = told ? "Next story" : "Tell a story";
      next.title = (told ? Stories.after(told) : Stories.ALL[0]).title;
    }

    /** The sentence for a time. */
    function follow(times, now, otherwise) {
      const said = told?.look[Stories.pointAt(told, times, now)]?.say ?? otherwise;
      if (caption.textContent !== said) caption.textContent = said;
    }
    return { show, follow };
  }

  return Object.freeze({ create });
})();

/*
 * Search in pages that are opened from disk. Browsers start no worker there, so the script of the worker runs in a hidden frame
 * instead, and messages go to and fro as events. Elsewhere this does nothing.
 * The theme looks for a file of this name and would fetch one from the network without it.
 */
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  /** Run a script in a window; resolves when it has run. */
  function load(target, url) {
    return new Promise(function (resolve, reject) {
      const script = target.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      target.document.body.append(script);
    });
  }

  /** As much of `Worker` as the search uses. */
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const opened = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      document.body.append(this.frame);
      this.ready = opened.then(() => this.begin(new URL(url, document.baseURI).href));
    }

    begin(url) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(inside, one)), Promise.resolve());
      return load(inside, url);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();

/* The stories as plain JSON, which Python reads too (playground/film.py): settings, what to say and from when, and the mark to see.
 * `rows` and `answers` are the words that the page gives these settings; what is said to a `visitor` is left out of films. A time is
 * `from` (start; one of theory's: onset, condensed, focused, diluted; or one seen in the run: opened) times a factor.
 */
const STORY_LIST = [
  {
    "name": "scanning", "title": "What is scanning?", "model": "scan-and-snap", "mark": "scanning",
    "rows": [["the", "dog", "bone", "leash"], ["the", "cat", "milk", "yarn"]], "answers": ["barks", "meows"],
    "change": {"optimiser": "reduced", "lrAttention": 3, "end": 10000, "law": [[0.4, 0.3273, 0.1636, 0.1091], [0.4, 0.1091, 0.1636, 0.3273]]},
    "look": [
      {"from": "start", "say": "A model learns the next word. Each bar: how much attention a word gets."},
      {"from": "onset", "times": 0.09, "say": "“the” comes before both answers and tells nothing: attention leaves it."},
      {"from": "onset", "times": 0.3, "say": "It scans the words that tell the answer; the most frequent one gains fastest."},
      {"from": "onset", "times": 1, "visitor": true, "say": "That was scanning. Drag a bar in the data, and the run follows."}
    ]
  },
  {
    "name": "snapping", "title": "Why it snaps", "model": "scan-and-snap", "mark": "snapped",
    "rows": [["the", "dog", "bone", "leash"], ["the", "cat", "milk", "yarn"]], "answers": ["barks", "meows"],
    "change": {"optimiser": "reduced", "lrAttention": 3, "end": 1000000, "law": [[0.4, 0.3273, 0.1636, 0.1091], [0.4, 0.1091, 0.1636, 0.3273]]},
    "look": [
      {"from": "start", "say": "Attention moves only while the answer is uncertain. The hill below is its speed."},
      {"from": "onset", "times": 0.3, "say": "The hill collapses: the error runs out, and with it what moves attention."},
      {"from": "onset", "times": 1, "say": "Snapped. From here attention only creeps, as the log of the log of time."},
      {"from": "onset", "times": 100, "visitor": true, "say": "In linear time it is one jolt, then a frozen line. Now try “plain descent”."}
    ]
  },
  {
    "name": "frequent-tokens", "title": "Why frequent tokens win", "model": "scan-and-snap", "mark": "scanning",
    "rows": [["the", "dog", "bone", "leash", "kennel"], ["the", "cat", "milk", "yarn", "mouse"]], "answers": ["barks", "meows"],
    "change": {
      "distinct": 4, "optimiser": "reduced", "lrAttention": 3, "end": 10000,
      "law": [[0.3, 0.07, 0.14, 0.35, 0.14], [0.3, 0.35, 0.14, 0.14, 0.07]]
    },
    "look": [
      {"from": "start", "say": "Every dog word tells “barks” equally well; “leash” is only more frequent."},
      {"from": "onset", "times": 0.1, "say": "The pull on a word grows with the square of its share: the rich get richer."},
      {"from": "onset", "times": 1, "say": "“leash” and “cat” win; rarer words that tell just as much fall behind."},
      {"from": "onset", "times": 30, "visitor": true, "say": "Drag another word's bar up in the data: the new favourite wins."}
    ]
  },
  {
    "name": "condensation", "title": "Condensation", "model": "focus-and-dilution", "mark": "condensing",
    "rows": [["sun", "cloud", "rain", "snow"]], "answers": [],
    "change": {"law": [[0.4, 0.24, 0.2, 0.16]], "lrAttention": 60, "stay": 0.6, "end": 80},
    "look": [
      {"from": "start", "say": "Tomorrow's weather is mostly today's. Each arrow is a word's embedding: noise."},
      {"from": "condensed", "times": 0.25, "say": "Near zero there is only one force: all arrows turn onto one line. They condense."},
      {"from": "condensed", "times": 1.1, "say": "One line tells only how frequent a word is; attention has hardly moved yet."}
    ]
  },
  {
    "name": "focus", "title": "Focus", "model": "focus-and-dilution", "mark": "focus",
    "rows": [["sun", "cloud", "rain", "snow"]], "answers": [],
    "change": {"law": [[0.4, 0.24, 0.2, 0.16]], "lrAttention": 60, "stay": 0.6, "end": 150},
    "look": [
      {"from": "start", "say": "First the embeddings condense onto one line, and attention waits."},
      {"from": "focused", "times": 1, "say": "Every row turns to “sun”, rows of frequent words furthest: this is focus."},
      {"from": "diluted", "times": 1.04, "say": "Past the peak: the rows of rarer words turn away. Focus does not last."}
    ]
  },
  {
    "name": "dilution", "title": "Dilution", "model": "focus-and-dilution", "mark": "dilution",
    "rows": [["sun", "cloud", "rain", "snow"]], "answers": [],
    "change": {"law": [[0.4, 0.24, 0.2, 0.16]], "lrAttention": 60, "stay": 0.6, "end": 500},
    "look": [
      {"from": "start", "say": "All rows are about to turn to the same column: that of “sun”, the most frequent."},
      {"from": "diluted", "times": 1, "say": "Dilution: the rows of rarer words leave it again, and the column fades."},
      {"from": "opened", "times": 1, "say": "A second direction opens: arrows leave the line, words can be told apart."},
      {"from": "opened", "times": 1.4, "say": "The diagonal lights: today's word is the one that tells tomorrow's."}
    ]
  }
];

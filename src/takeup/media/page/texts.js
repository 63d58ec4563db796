/** WebVTT: subtitles, chapters and the pictures of the storyboard. */

const TEXT_AHEAD_S = 60;
const TIME = /(?:(\d+):)?(\d\d):(\d\d)[.,](\d\d\d)/;
const CLOCK_HZ = 90_000;

/** @typedef {{start: number, end: number, settings: string, text: string}} Cue */

/** @param {string} text @returns {number} */
function secondsOf(text) {
  const [, hours = "0", minutes = "0", seconds = "0", ms = "0"] = text.match(TIME) ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) + Number(ms) / 1000;
}

/**
 * The cues of a file. With a map of times they are on the clock of the pieces, whose first picture is at `lead`.
 * @param {string} text @param {number} [lead] @returns {Cue[]}
 */
function parseVtt(text, lead = 0) {
  const blocks = text.replaceAll(/\r\n?/g, "\n").split(/\n\n+/);
  const map = blocks[0]?.match(/X-TIMESTAMP-MAP=(.*)/)?.[1] ?? "";
  const shift = map ? Number(map.match(/MPEGTS:(\d+)/)?.[1] ?? 0) / CLOCK_HZ - secondsOf(map.match(/LOCAL:([\d:.]+)/)?.[1] ?? "") - lead : 0;
  return blocks.flatMap((block) => {
    const lines = block.split("\n");
    const at = lines.findIndex((line) => line.includes("-->"));
    const [start = "", rest = ""] = (lines[at] ?? "").split("-->");
    const [end = "", ...settings] = rest.trim().split(/\s+/);
    if (at < 0 || !TIME.test(start) || !TIME.test(end)) return [];
    const text = lines.slice(at + 1).join("\n").trimEnd();
    return [{ start: secondsOf(start) + shift, end: secondsOf(end) + shift, settings: settings.join(" "), text }];
  });
}

/** The text of a cue as a menu shows it. @param {string} text */
function plainText(text) {
  const signs = { amp: "&", lt: "<", gt: ">", nbsp: " " };
  const bare = text.replaceAll(/<[^>]*>/g, "");
  return bare.replaceAll(/&(amp|lt|gt|nbsp);/g, (_, name) => signs[/** @type {keyof signs} */ (name)]);
}

/** @param {Cue} cue @returns {VTTCue} */
function cueOf(cue) {
  const made = new VTTCue(Math.max(cue.start, 0), cue.end, cue.text);
  for (const [, name, value = ""] of cue.settings.matchAll(/(\w+):(\S+)/g)) {
    const number = Number.parseFloat(value);
    if (name === "line" && !Number.isNaN(number)) [made.snapToLines, made.line] = [!value.includes("%"), number];
    if (name === "position" && number <= 100) made.position = number;
    if (name === "size" && number <= 100) made.size = number;
    if (name === "align" && /^(start|center|end|left|right)$/.test(value)) made.align = /** @type {AlignSetting} */ (value);
  }
  return made;
}

/** One subtitle track; its files are brought as the viewer comes near them. */
class Subtitles {
  /** @param {HTMLVideoElement} video @param {Rendition} rendition @param {{value: number | null}} lead */
  constructor(video, rendition, lead) {
    this.video = video;
    this.rendition = rendition;
    this.lead = lead;
    this.track = video.addTextTrack("subtitles", rendition.name, rendition.language);
    this.track.mode = "disabled";
    this.seen = new Set();
    /** @type {Piece[] | null} */
    this.waiting = null;
    this.isBusy = false;
  }

  /** @param {boolean} isShown */
  show(isShown) {
    this.track.mode = isShown ? "showing" : "disabled";
    if (isShown) this.tick();
  }

  /** Bring what comes next. A file that cannot be had leaves a gap in the texts, not in the film. */
  async tick() {
    if (this.track.mode !== "showing" || this.isBusy || this.lead.value === null) return;
    this.isBusy = true;
    try {
      this.waiting ??= await this.pieces();
      const now = this.video.currentTime;
      const near = this.waiting.filter((piece) => piece.start < now + TEXT_AHEAD_S && piece.start + piece.duration > now);
      this.waiting = this.waiting.filter((piece) => !near.includes(piece));
      for (const piece of near) this.add(parseVtt(await (await bring(piece.url)).text(), this.lead.value));
    } catch (error) {
      console.warn("texts", error);
    } finally {
      this.isBusy = false;
    }
  }

  async pieces() {
    const response = await bring(this.rendition.url);
    const text = await response.text();
    if (!text.startsWith("WEBVTT")) return parseListing(text, response.url).pieces;
    return [{ url: response.url, start: 0, duration: Infinity }];
  }

  /** A cue over the edge of two files stands in both. @param {Cue[]} cues */
  add(cues) {
    for (const cue of cues) {
      const key = JSON.stringify(cue);
      if (!this.seen.has(key)) this.track.addCue(cueOf(cue));
      this.seen.add(key);
    }
  }
}

/** The cues of a file beside the page, none if it is not there. @param {string} name @returns {Promise<Cue[]>} */
async function cuesBeside(name) {
  try {
    const response = await fetch(name);
    return response.ok ? parseVtt(await response.text()) : [];
  } catch {
    return [];
  }
}

/**
 * Where in which picture a moment is shown.
 * @param {Cue[]} cues @param {number} time
 * @returns {{url: string, x: number, y: number, width: number, height: number} | null}
 */
function lookAt(cues, time) {
  const cue = cues.find(({ start, end }) => start <= time && time < end) ?? cues.at(-1);
  const [, name = "", place = ""] = cue?.text.trim().match(/^(.*)#xywh=(?:pixel:)?([\d,]+)$/) ?? [];
  const [x = 0, y = 0, width = 0, height = 0] = place.split(",").map(Number);
  return name ? { url: addressOf(name, document.baseURI), x, y, width, height } : null;
}

/**
 * Playlists: what a stream is made of. Every address must be of this server, whatever a playlist says.
 *
 * @typedef {{url: string, start: number, duration: number}} Piece
 * @typedef {{init: string, pieces: Piece[], duration: number}} Listing
 * @typedef {{url: string, bandwidth: number, codecs: string[], width: number, height: number, rate: number,
 *   range: string, soundGroup: string, textGroup: string}} Rung
 * @typedef {{url: string, type: string, group: string, name: string, language: string, isDefault: boolean}} Rendition
 * @typedef {{rungs: Rung[], renditions: Rendition[]}} Master
 */

const PICTURE_CODECS = ["av01", "hvc1", "hev1", "dvh1", "avc1", "avc3", "vp09"];

/** Something is wrong that a viewer must be told, with what to do. */
class Trouble extends Error {}

/** @param {string} codec */
const isPicture = (codec) => PICTURE_CODECS.includes(codec.slice(0, 4));

/**
 * The whole address of a name in a playlist.
 * @param {string} name @param {string} base @returns {string}
 */
function addressOf(name, base) {
  const url = new URL(name, base);
  if (url.origin !== new URL(base).origin) {
    throw new Trouble(`The stream leads to another server, ${url.host}. It is not played from there.`);
  }
  return url.href;
}

/** @param {string} text @returns {Record<string, string>} */
function attributesOf(text) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const [, name = "", value = ""] of text.matchAll(/([A-Z0-9-]+)=("[^"]*"|[^",]*)/g)) {
    found[name] = value.replaceAll('"', "");
  }
  return found;
}

/** @param {string} text @returns {string[]} */
function linesOf(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (lines[0] !== "#EXTM3U") {
    throw new Trouble("A playlist of this stream is damaged. Make the stream again with `takeup transcode`.");
  }
  return lines;
}

/** @param {string} text @param {string} base @returns {Master} */
function parseMaster(text, base) {
  /** @type {Master} */
  const master = { rungs: [], renditions: [] };
  /** @type {Record<string, string> | null} */
  let facts = null;
  for (const line of linesOf(text)) {
    if (line.startsWith("#EXT-X-STREAM-INF:")) {
      facts = attributesOf(line);
    } else if (line.startsWith("#EXT-X-MEDIA:")) {
      const told = attributesOf(line);
      if (told.URI) master.renditions.push(renditionOf(told, base));
    } else if (!line.startsWith("#") && facts) {
      master.rungs.push(rungOf(facts, addressOf(line, base)));
      facts = null;
    }
  }
  return master;
}

/** @param {Record<string, string>} told @param {string} base @returns {Rendition} */
function renditionOf(told, base) {
  return {
    url: addressOf(told.URI ?? "", base),
    type: told.TYPE ?? "",
    group: told["GROUP-ID"] ?? "",
    name: told.NAME ?? "",
    language: told.LANGUAGE ?? "",
    isDefault: told.DEFAULT === "YES",
  };
}

/** @param {Record<string, string>} facts @param {string} url @returns {Rung} */
function rungOf(facts, url) {
  const [width = 0, height = 0] = (facts.RESOLUTION ?? "").split("x").map(Number);
  return {
    url, width, height,
    bandwidth: Number(facts.BANDWIDTH),
    codecs: (facts.CODECS ?? "").split(",").map((codec) => codec.trim()).filter(Boolean),
    rate: Number(facts["FRAME-RATE"] ?? 0),
    range: facts["VIDEO-RANGE"] ?? "SDR",
    soundGroup: facts.AUDIO ?? "",
    textGroup: facts.SUBTITLES ?? "",
  };
}

/** @param {string} text @param {string} base @returns {Listing} */
function parseListing(text, base) {
  /** @type {Listing} */
  const listing = { init: "", pieces: [], duration: 0 };
  let duration = 0;
  for (const line of linesOf(text)) {
    if (line.startsWith("#EXTINF:")) {
      duration = Number.parseFloat(line.slice("#EXTINF:".length));
    } else if (line.startsWith("#EXT-X-MAP:")) {
      listing.init = addressOf(attributesOf(line).URI ?? "", base);
    } else if (line.startsWith("#EXT-X-BYTERANGE:")) {
      throw new Trouble("The pieces of this stream lie in one file; this page plays only pieces that are files.");
    } else if (!line.startsWith("#")) {
      listing.pieces.push({ url: addressOf(line, base), start: listing.duration, duration });
      listing.duration += duration;
    }
  }
  return listing;
}

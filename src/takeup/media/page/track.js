/** One track: brings its pieces, one after the other, from where the viewer is to a little ahead, and drops old ones. */

const FORWARD_S = 30;
const FORWARD_LEAST_S = 8;
const BACK_S = 30;
const BACK_SLACK_S = 10;
const LATER_S = 1;
const TRIES_MAX = 5;
const PAUSE_MS = 400;
const SLOW_S = 4;
const EDGE_S = 0.02;

/** @param {number} ms @returns {Promise<void>} */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A file that the server does not have. */
class Missing extends Error {}

/** @param {string} url @param {RequestInit} [options] @returns {Promise<Response>} */
async function bring(url, options) {
  const response = await fetch(url, options);
  if (response.status === 404 || response.status === 410) throw new Missing(new URL(url).pathname);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response;
}

/**
 * Start something on a buffer and wait until it is done.
 * @param {SourceBuffer} buffer @param {() => void} act @returns {Promise<void>}
 */
function settled(buffer, act) {
  return new Promise((resolve, reject) => {
    const done = new AbortController();
    const told = { signal: done.signal };
    const bad = () => reject(new Trouble("A piece of the stream is damaged. Try another quality, or make the stream again."));
    buffer.addEventListener("error", bad, told);
    buffer.addEventListener("updateend", () => { done.abort(); resolve(); }, told);
    try {
      act();
    } catch (error) {
      done.abort();
      reject(error);
    }
  });
}

/** @param {TimeRanges} ranges @param {number} time @returns {[number, number] | null} */
function rangeAround(ranges, time) {
  for (let n = 0; n < ranges.length; n += 1) {
    if (ranges.start(n) - EDGE_S <= time && time < ranges.end(n)) return [ranges.start(n), ranges.end(n)];
  }
  return null;
}

class Track {
  /**
   * @param {HTMLVideoElement} video @param {SourceBuffer} buffer
   * @param {{choose: (ahead: number) => {url: string, codec: string, bandwidth: number},
   *   measure: (bytes: number, seconds: number) => void, giveUp: (url: string) => boolean,
   *   kind: string, lead: {value: number | null}, isLeading: boolean}} ways
   */
  constructor(video, buffer, ways) {
    this.video = video;
    this.buffer = buffer;
    this.ways = ways;
    this.forward = FORWARD_S;
    /** @type {Map<string, Listing>} */
    this.listings = new Map();
    /** @type {{url: string, codec: string, bandwidth: number} | null} */
    this.source = null;
    /** @type {Listing | null} */
    this.listing = null;
    this.tried = "";
    this.next = 0;
    this.hasMoved = false;
    /** How much of what is there is stale. @type {"nothing" | "later" | "all"} */
    this.stale = "nothing";
    this.isClosed = false;
    this.stop = new AbortController();
  }

  /** Seconds ahead of the viewer that are there. */
  get ahead() {
    const around = rangeAround(this.buffer.buffered, this.video.currentTime);
    return around ? around[1] - this.video.currentTime : 0;
  }

  get isComplete() {
    return this.listing !== null && !this.hasMoved && this.stale === "nothing" && !this.buffer.updating
      && this.next >= this.listing.pieces.length;
  }

  /** The viewer is somewhere else: go on from there. */
  move() {
    this.hasMoved = true;
    if (!rangeAround(this.buffer.buffered, this.video.currentTime)) this.stop.abort();
  }

  /** Replace what is ahead, from the next piece on, or all of it at once. @param {boolean} atOnce */
  renew(atOnce) {
    this.stale = atOnce ? "all" : "later";
    this.stop.abort();
  }

  close() {
    this.isClosed = true;
    this.stop.abort();
  }

  /** Work until closed; ends with an error that cannot be helped. */
  async run() {
    for (let tries = 0; !this.isClosed; ) {
      try {
        if (!(await this.step())) await pause(PAUSE_MS);
        tries = 0;
      } catch (error) {
        if (this.isClosed) return;
        if (error instanceof Trouble || this.video.error) throw error;
        const isAborted = error instanceof DOMException && error.name === "AbortError";
        if (isAborted) continue;
        if (error instanceof Missing && this.ways.giveUp(this.tried)) continue;
        tries += 1;
        if (tries >= TRIES_MAX || error instanceof Missing) throw error;
        await pause(PAUSE_MS * 2 ** tries);
      }
    }
  }

  /** One piece, if one is wanted; true if there was something to do. */
  async step() {
    this.stop = new AbortController();
    await this.follow();
    const listing = /** @type {Listing} */ (this.listing);
    if (this.stale !== "nothing") await this.dropStale(listing);
    if (this.hasMoved) this.place(listing);
    const piece = listing.pieces[this.next];
    if (!piece || piece.start > this.video.currentTime + this.forward) return false;
    if (!this.ways.isLeading && this.ways.lead.value === null) return false;
    const data = await this.bringPiece(piece);
    if (this.hasMoved || this.stale !== "nothing") return true;
    if (!(await this.append(data, piece))) return false;
    this.next += 1;
    await this.dropOld();
    return true;
  }

  /** Take the source that is chosen now; its pieces may lie elsewhere in time. */
  async follow() {
    const source = this.ways.choose(this.ahead);
    this.tried = source.url;
    if (source.url === this.source?.url) return;
    const listing = await this.listed(source.url);
    if (!listing.init) throw new Trouble("The stream is not made of fMP4 files; this page plays only those.");
    const init = await (await bring(listing.init, { signal: this.stop.signal })).arrayBuffer();
    if (this.buffer.changeType) this.buffer.changeType(`${this.ways.kind}/mp4; codecs="${source.codec}"`);
    await settled(this.buffer, () => this.buffer.appendBuffer(init));
    const time = this.listing?.pieces[this.next]?.start;
    if (time !== undefined) this.next = this.indexAt(listing, time);
    else if (this.listing) this.next = listing.pieces.length;
    this.listing = listing;
    this.source = source;
  }

  /** @param {string} url @returns {Promise<Listing>} */
  async listed(url) {
    const known = this.listings.get(url);
    if (known) return known;
    const response = await bring(url, { signal: this.stop.signal });
    const listing = parseListing(await response.text(), response.url);
    this.listings.set(url, listing);
    return listing;
  }

  /** @param {Piece} piece @returns {Promise<ArrayBuffer>} */
  async bringPiece(piece) {
    const bandwidth = this.source?.bandwidth ?? 0;
    const limit_s = Math.max(SLOW_S, piece.duration, this.ahead);
    const started = performance.now();
    const timer = setTimeout(() => {
      this.ways.measure((bandwidth * piece.duration) / 8, limit_s);  // it is slower than that
      if (this.ways.choose(this.ahead).url !== this.source?.url) this.stop.abort();
    }, limit_s * 1000);
    try {
      const data = await (await bring(piece.url, { signal: this.stop.signal })).arrayBuffer();
      this.ways.measure(data.byteLength, (performance.now() - started) / 1000);
      return data;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {ArrayBuffer} data @param {Piece} piece */
  async append(data, piece) {
    const lead = this.ways.lead;
    if (lead.value === null) {
      await settled(this.buffer, () => this.buffer.appendBuffer(data));
      lead.value = this.buffer.buffered.length ? this.buffer.buffered.start(0) - piece.start : 0;
      await settled(this.buffer, () => this.buffer.remove(0, Infinity));
    }
    this.buffer.timestampOffset = -lead.value;  // so that the first picture is shown at zero
    try {
      await settled(this.buffer, () => this.buffer.appendBuffer(data));
      return true;
    } catch (error) {
      const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
      if (!isFull || this.forward <= FORWARD_LEAST_S) throw error;
      await this.makeRoom();
      return false;
    }
  }

  /** The browser keeps less than we would like: less behind, and less ahead from now on. */
  async makeRoom() {
    const now = this.video.currentTime;
    this.forward = Math.max(FORWARD_LEAST_S, this.forward / 2);
    if (now > LATER_S) await settled(this.buffer, () => this.buffer.remove(0, now - LATER_S));
    await settled(this.buffer, () => this.buffer.remove(now + this.forward, Infinity));
    this.hasMoved = true;
  }

  async dropOld() {
    const now = this.video.currentTime;
    const ranges = this.buffer.buffered;
    if (ranges.length && ranges.start(0) < now - BACK_S - BACK_SLACK_S) {
      await settled(this.buffer, () => this.buffer.remove(0, now - BACK_S));
    }
    if (ranges.length && ranges.end(ranges.length - 1) > now + 2 * FORWARD_S + BACK_SLACK_S) {
      await settled(this.buffer, () => this.buffer.remove(now + 2 * FORWARD_S, Infinity));
    }
  }

  /** Keep only the piece that is being watched, or nothing. @param {Listing} listing */
  async dropStale(listing) {
    const isAll = this.stale === "all";
    this.stale = "nothing";
    const now = this.video.currentTime;
    const watched = this.indexAt(listing, now);
    const after = listing.pieces.findIndex((piece) => piece.start >= now + LATER_S);
    const next = isAll ? watched : after < 0 ? listing.pieces.length : after;
    const start = listing.pieces[watched]?.start ?? 0;
    const end = listing.pieces[next]?.start ?? listing.duration;
    this.next = next;
    if (start > 0) await settled(this.buffer, () => this.buffer.remove(0, start));
    if (end < listing.duration) await settled(this.buffer, () => this.buffer.remove(end, Infinity));
  }

  /** @param {Listing} listing */
  place(listing) {
    this.hasMoved = false;
    const now = this.video.currentTime;
    const around = rangeAround(this.buffer.buffered, now);
    const edge = around ? around[1] : now;
    const isAtEnd = edge >= listing.duration - EDGE_S * 2 && around;
    this.next = isAtEnd ? listing.pieces.length : this.indexAt(listing, edge);
  }

  /** @param {Listing} listing @param {number} time */
  indexAt(listing, time) {
    const after = listing.pieces.findIndex((piece) => piece.start > time + EDGE_S);
    return after < 0 ? listing.pieces.length - 1 : Math.max(after - 1, 0);
  }
}

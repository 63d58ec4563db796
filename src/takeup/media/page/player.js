/** The player: a media source with a track for the picture and one for the sound. */

const TICK_MS = 250;
const GAP_MAX_S = 1;

/** @param {string} codecs */
const isSupported = (codecs) => MediaSource.isTypeSupported(`video/mp4; codecs="${codecs}"`);

class Player {
  /** @param {HTMLVideoElement} video @param {Master} master @param {(error: unknown) => void} fail */
  constructor(video, master, fail) {
    this.video = video;
    this.master = master;
    this.fail = fail;
    this.throughput = new Throughput();
    this.lead = { value: /** @type {number | null} */ (null) };
    /** @type {Rung[]} */
    this.rungs = [];
    /** @type {Rendition[]} */
    this.sounds = [];
    /** The rung that the viewer asked for; none: we choose. @type {Rung | null} */
    this.fixed = null;
    /** @type {Rung | null} */
    this.rung = null;
    /** @type {Rendition | null} */
    this.sound = null;
    /** @type {Track[]} */
    this.tracks = [];
    this.media = new MediaSource();
  }

  /** Choose what can be played here, open the media source, and begin to bring pieces. */
  async start() {
    const isBright = matchMedia("(dynamic-range: high)").matches;
    this.rungs = chooseFamily(this.master.rungs, isSupported, isBright);
    const group = this.rungs[0]?.soundGroup;
    this.sounds = this.master.renditions.filter((one) => one.type === "AUDIO" && one.group === group);
    if (!this.master.rungs.some((rung) => rung.codecs.some(isPicture))) this.sounds = soundsAlone(this.master.rungs);
    this.sound = this.sounds.find((one) => one.isDefault) ?? this.sounds[0] ?? null;
    if (!this.rungs.length && !this.sound) {
      throw new Trouble("This browser knows none of the codecs of this stream. Try another browser, or make the stream with H.264.");
    }
    await this.open();
    for (const track of this.tracks) track.run().catch((error) => this.end(error));
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.video.addEventListener("seeking", () => this.tracks.forEach((track) => track.move()));
  }

  async open() {
    this.video.src = URL.createObjectURL(this.media);
    await new Promise((resolve) => this.media.addEventListener("sourceopen", resolve, { once: true }));
    URL.revokeObjectURL(this.video.src);
    const codecs = (this.rungs[0] ?? this.master.rungs[0])?.codecs ?? [];
    const soundCodec = codecs.find((codec) => !isPicture(codec)) ?? "";
    if (this.rungs.length) this.addPicture();
    if (this.sound) this.addSound(soundCodec);
  }

  addPicture() {
    /** @param {Rung} rung */
    const codecOf = (rung) => rung.codecs.filter((codec) => isPicture(codec) || !this.sounds.length).join(",");
    const buffer = this.media.addSourceBuffer(`video/mp4; codecs="${codecOf(/** @type {Rung} */ (this.rungs[0]))}"`);
    const choose = (/** @type {number} */ ahead) => {
      const { clientWidth, clientHeight } = this.video;
      const size = { width: clientWidth * devicePixelRatio, height: clientHeight * devicePixelRatio };
      this.rung = this.fixed ?? chooseRung(this.rungs, this.rung, { bits: this.throughput.bits, ...size, ahead });
      return { ...this.rung, codec: codecOf(this.rung) };
    };
    this.tracks.push(new Track(this.video, buffer, {
      choose, kind: "video", lead: this.lead, isLeading: true,
      measure: (bytes, seconds) => this.throughput.add(bytes, seconds),
      giveUp: (url) => this.giveUp(url),
    }));
  }

  /** @param {string} codec */
  addSound(codec) {
    const buffer = this.media.addSourceBuffer(`audio/mp4; codecs="${codec}"`);
    this.tracks.push(new Track(this.video, buffer, {
      choose: () => ({ url: this.sound?.url ?? "", codec, bandwidth: 0 }),
      kind: "audio", lead: this.lead, isLeading: !this.rungs.length,
      measure: () => {},
      giveUp: () => false,
    }));
  }

  /** A rung whose files are not there is left out, as long as others are. @param {string} url */
  giveUp(url) {
    if (this.rungs.length < 2) return false;
    this.rungs = this.rungs.filter((rung) => rung.url !== url);
    if (this.fixed?.url === url) this.fixed = null;
    if (this.rung?.url === url) this.rung = null;
    this.video.dispatchEvent(new Event("rungschange"));
    return true;
  }

  /** @param {Rung | null} rung none: we choose */
  fix(rung) {
    this.fixed = rung;
    if (rung && rung !== this.rung) this.tracks[0]?.renew(false);
  }

  /** @param {Rendition} sound */
  hear(sound) {
    this.sound = sound;
    this.tracks.at(-1)?.renew(true);
  }

  /** What must be looked at again and again: the length, small gaps, the end. */
  tick() {
    const { video, media, tracks } = this;
    if (video.error) return this.end(new Trouble("This browser could not decode the stream. Try another quality or another browser."));
    if (media.readyState !== "open" || tracks.some((track) => track.buffer.updating)) return;
    const length = tracks[0]?.listing?.duration;
    if (length && !Number.isFinite(media.duration)) media.duration = length;
    if (tracks.every((track) => track.isComplete)) media.endOfStream();
    else if (video.readyState < HTMLMediaElement.HAVE_FUTURE_DATA) this.unstick();
  }

  /** Playback waits: jump over a small gap, or bring what the browser dropped. */
  unstick() {
    const { video } = this;
    const now = video.currentTime;
    for (let n = 0; n < video.buffered.length; n += 1) {
      const start = video.buffered.start(n);
      if (start > now && start - now < GAP_MAX_S) {
        video.currentTime = start;
        return;
      }
    }
    const isLost = (/** @type {Track} */ track) => track.ahead === 0 && (track.listing?.pieces[track.next]?.start ?? now) > now;
    this.tracks.filter(isLost).forEach((track) => track.move());
  }

  /** @param {unknown} error */
  end(error) {
    clearInterval(this.timer);
    this.tracks.forEach((track) => track.close());
    this.fail(error);
  }
}

/**
 * A stream without pictures lists its sound tracks as variants: they are tracks to choose from, not qualities.
 * @param {Rung[]} rungs @returns {Rendition[]}
 */
function soundsAlone(rungs) {
  return rungs
    .filter((rung) => isSupported(rung.codecs.join(",")))
    .map((rung, n) => ({ url: rung.url, type: "AUDIO", group: "", name: `Track ${n + 1}`, language: "", isDefault: n === 0 }));
}

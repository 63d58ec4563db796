/** What the viewer sees and touches; all texts are set as text, never as markup. */

const IDLE_MS = 3000;
const STEP_S = 5;
const LEAP_S = 10;

/** @template {Element} T @param {string} selector @param {new () => T} kind @returns {T} */
function part(selector, kind) {
  const found = document.querySelector(selector);
  if (found instanceof kind) return found;
  throw new Error(`the page has no ${selector}`);
}

/** @param {number} seconds */
function clock(seconds) {
  const whole = Math.floor(seconds || 0);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** @param {Rung} rung */
const nameOf = (rung) => `${Math.min(rung.width, rung.height)}p${rung.rate > 31 ? Math.round(rung.rate) : ""}${rung.range === "SDR" ? "" : " HDR"}`;

class Controls {
  /** @param {HTMLVideoElement} video */
  constructor(video) {
    this.video = video;
    this.player = part(".player", HTMLElement);
    this.seek = part(".seek", HTMLInputElement);
    this.volume = part(".volume", HTMLInputElement);
    this.time = part(".time", HTMLOutputElement);
    /** @type {Cue[]} */
    this.looks = [];
    part(".bar", HTMLElement).hidden = false;
    this.wire();
  }

  wire() {
    const { video, seek, volume } = this;
    const buttons = { play: () => this.toggle(), mute: () => { video.muted = !video.muted; }, full: () => this.fill() };
    for (const [name, act] of Object.entries(buttons)) part(`.${name}`, HTMLButtonElement).addEventListener("click", act);
    for (const name of ["timeupdate", "durationchange", "play", "pause", "volumechange", "seeking"]) {
      video.addEventListener(name, () => this.draw());
    }
    video.addEventListener("click", () => this.toggle());
    seek.addEventListener("input", () => { video.currentTime = Number(seek.value); });
    volume.addEventListener("input", () => { video.volume = Number(volume.value); video.muted = false; });
    seek.addEventListener("pointermove", (event) => this.preview(event));
    seek.addEventListener("pointerleave", () => { part(".preview", HTMLElement).hidden = true; });
    document.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["pointermove", "keydown"]) this.player.addEventListener(name, () => this.wake());
  }

  draw() {
    const { video, seek } = this;
    seek.max = String(video.duration || 0);
    seek.value = String(video.currentTime);
    this.time.value = `${clock(video.currentTime)} / ${clock(video.duration)}`;
    seek.ariaValueText = `${clock(video.currentTime)} of ${clock(video.duration)}`;
    part(".play", HTMLButtonElement).textContent = video.paused ? "Play" : "Pause";
    part(".mute", HTMLButtonElement).ariaPressed = String(video.muted);
    this.volume.value = String(video.muted ? 0 : video.volume);
  }

  toggle() {
    if (this.video.paused) this.video.play().catch(() => this.draw());
    else this.video.pause();
  }

  fill() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.player.requestFullscreen?.();
  }

  wake() {
    clearTimeout(this.idle);
    this.player.classList.remove("idle");
    this.idle = setTimeout(() => this.player.classList.toggle("idle", !this.video.paused), IDLE_MS);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { video } = this;
    const at = event.target;
    if (event.ctrlKey || event.altKey || event.metaKey || at instanceof HTMLSelectElement) return;
    if (event.key === " " && at instanceof HTMLButtonElement) return;
    if (event.key.startsWith("Arrow") && at instanceof HTMLInputElement) return;
    const louder = (/** @type {number} */ by) => { video.volume = Math.min(Math.max(video.volume + by, 0), 1); };
    const go = (/** @type {number} */ time) => { video.currentTime = Math.min(Math.max(time, 0), video.duration || 0); };
    /** @type {Record<string, () => void>} */
    const acts = {
      " ": () => this.toggle(), k: () => this.toggle(), f: () => this.fill(), m: () => { video.muted = !video.muted; },
      ArrowLeft: () => go(video.currentTime - STEP_S), ArrowRight: () => go(video.currentTime + STEP_S),
      j: () => go(video.currentTime - LEAP_S), l: () => go(video.currentTime + LEAP_S),
      ArrowUp: () => louder(0.1), ArrowDown: () => louder(-0.1), Home: () => go(0), End: () => go(video.duration),
    };
    const act = acts[event.key] ?? (/^\d$/.test(event.key) ? () => go((video.duration * Number(event.key)) / 10) : null);
    if (!act) return;
    event.preventDefault();
    act();
  }

  /**
   * A menu with these entries; it is hidden as long as there is nothing to choose.
   * @param {string} name @param {string[]} entries @param {number} chosen @param {(n: number) => void} act
   */
  menu(name, entries, chosen, act) {
    const select = part(`.${name}`, HTMLSelectElement);
    select.replaceChildren(...entries.map((text, n) => new Option(text, String(n), n === chosen, n === chosen)));
    select.onchange = () => act(select.selectedIndex);
    if (select.parentElement) select.parentElement.hidden = entries.length < 2;
  }

  /** @param {Cue[]} cues */
  chapters(cues) {
    const go = (/** @type {number} */ n) => { this.video.currentTime = cues[n]?.start ?? 0; };
    this.menu("chapters", cues.map((cue) => plainText(cue.text)), 0, go);
    const marks = cues.map((cue) => {
      const mark = document.createElement("i");
      mark.style.left = `${(100 * cue.start) / this.video.duration}%`;
      return mark;
    });
    part(".marks", HTMLElement).replaceChildren(...marks);
  }

  /** A look at the moment under the pointer. @param {PointerEvent} event */
  preview(event) {
    const place = event.offsetX / this.seek.clientWidth;
    const time = Math.min(Math.max(place, 0), 1) * (this.video.duration || 0);
    const look = lookAt(this.looks, time);
    const box = part(".preview", HTMLElement);
    box.hidden = false;
    box.style.left = `${Math.min(Math.max(place, 0), 1) * 100}%`;
    part(".preview span", HTMLElement).textContent = clock(time);
    if (!look) return;
    Object.assign(part(".preview i", HTMLElement).style, {
      width: `${look.width}px`, height: `${look.height}px`,
      backgroundImage: `url(${JSON.stringify(look.url)})`, backgroundPosition: `-${look.x}px -${look.y}px`,
    });
  }
}

/** Begins here: finds out how this browser can play the stream beside the page, and says so if it cannot. */

const MASTER = "master.m3u8";
const video = part("video", HTMLVideoElement);

/** @param {unknown} error */
function tell(error) {
  let words = "The server cannot be reached. See that it still runs, then try again.";
  if (error instanceof Missing) words = `A file of this stream is missing: ${error.message}. Copy the whole folder again, or make it again.`;
  if (error instanceof Trouble) words = error.message;
  console.error(error);
  part(".message span", HTMLElement).textContent = words;
  part(".message", HTMLElement).hidden = false;
  const again = part(".message button", HTMLButtonElement);
  again.hidden = location.protocol === "file:";
  again.onclick = () => location.reload();
}

/** @param {Player} player @param {Controls} controls */
function offer(player, controls) {
  const name = (/** @type {Rendition} */ one) => one.name || one.language;
  const qualities = () => {
    const rungs = player.rungs.toReversed();
    const chosen = player.fixed ? rungs.indexOf(player.fixed) + 1 : 0;
    controls.menu("quality", ["Auto", ...rungs.map(nameOf)], chosen, (n) => player.fix(rungs[n - 1] ?? null));
  };
  qualities();
  video.addEventListener("rungschange", qualities);
  const sound = player.sound ? player.sounds.indexOf(player.sound) : 0;
  controls.menu("sound", player.sounds.map(name), sound, (n) => player.hear(/** @type {Rendition} */ (player.sounds[n])));
  const group = player.rungs[0]?.textGroup;
  const texts = player.master.renditions
    .filter((one) => one.type === "SUBTITLES" && one.group === group)
    .map((one) => new Subtitles(video, one, player.lead));
  const show = (/** @type {number} */ n) => texts.forEach((text, at) => text.show(at === n - 1));
  const first = texts.findIndex((text) => text.rendition.isDefault) + 1;
  controls.menu("texts", ["Off", ...texts.map((text) => name(text.rendition))], first, show);
  show(first);
  setInterval(() => texts.forEach((text) => text.tick()), TICK_MS);
}

/** What may lie beside the page. @param {Controls} controls */
async function decorate(controls) {
  const poster = new Image();
  poster.onload = () => { video.poster = poster.src; };
  poster.src = "poster.jpg";
  controls.looks = await cuesBeside("storyboard.vtt");
  const chapters = await cuesBeside("chapters.vtt");
  const mark = () => { if (Number.isFinite(video.duration)) controls.chapters(chapters); };
  video.addEventListener("durationchange", mark);
  mark();
}

async function main() {
  if (location.protocol === "file:") throw new Trouble("A browser does not play a stream from a file. Run `takeup watch DIR` with this folder, and open the address that it prints.");
  if (!("MediaSource" in window)) {
    if (!video.canPlayType("application/vnd.apple.mpegurl")) throw new Trouble("This browser cannot play streams. Try a newer one.");
    video.src = MASTER;
    video.controls = true;
    return;
  }
  const response = await bring(new URL(MASTER, document.baseURI).href, { cache: "no-cache" });
  const player = new Player(video, parseMaster(await response.text(), response.url), tell);
  await player.start();
  const controls = new Controls(video);
  offer(player, controls);
  await decorate(controls);
}

main().catch(tell);

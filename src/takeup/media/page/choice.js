/** Which rung: by what the line carries, by how large the picture is shown, and without going to and fro. */

const START_BITS = 1_500_000;
const UP_SHARE = 0.7;
const STAY_SHARE = 0.95;
const STAY_SHARE_LOW = 0.8;
const COMFORT_S = 10;
const SAMPLE_BYTES_MIN = 16_000;
const HALF_LIVES_S = [3, 9];
const FAMILIES = [["av01"], ["hvc1", "hev1"], ["vp09"], ["avc1", "avc3"]];

/** How many bits a second came lately: the lower of a quick and a slow mean. */
class Throughput {
  constructor() {
    this.means = HALF_LIVES_S.map((halfLife) => ({ halfLife, sum: 0, weight: 0 }));
  }

  /** @param {number} bytes @param {number} seconds */
  add(bytes, seconds) {
    if (bytes < SAMPLE_BYTES_MIN) return;
    const length = Math.max(seconds, 0.001);
    for (const mean of this.means) {
      const keep = 0.5 ** (length / mean.halfLife);
      mean.sum = mean.sum * keep + ((bytes * 8) / length) * (1 - keep);
      mean.weight = mean.weight * keep + (1 - keep);
    }
  }

  /** Zero as long as nothing is known. */
  get bits() {
    return Math.min(...this.means.map(({ sum, weight }) => (weight ? sum / weight : 0)));
  }
}

/**
 * The rung for the next piece.
 * @param {Rung[]} rungs from the lowest to the highest bandwidth
 * @param {Rung | null} current
 * @param {{bits: number, width: number, height: number, ahead: number}} now
 * @returns {Rung}
 */
function chooseRung(rungs, current, now) {
  const covering = rungs.findIndex((rung) => rung.width >= now.width || rung.height >= now.height);
  const fitting = covering < 0 ? rungs : rungs.slice(0, covering + 1);
  const limit = now.bits ? now.bits * UP_SHARE : START_BITS;
  const best = fitting.findLast((rung) => rung.bandwidth <= limit) ?? /** @type {Rung} */ (fitting[0]);
  if (!current || !fitting.includes(current)) return best;
  const stays = current.bandwidth <= now.bits * (now.ahead >= COMFORT_S ? STAY_SHARE : STAY_SHARE_LOW);
  if (!now.bits || (stays && (best.bandwidth <= current.bandwidth || now.ahead < COMFORT_S))) return current;
  return best;
}

/**
 * The rungs of the best codec and range that this browser and screen can show, from the lowest up.
 * @param {Rung[]} rungs @param {(codecs: string) => boolean} isSupported @param {boolean} isBright
 * @returns {Rung[]}
 */
function chooseFamily(rungs, isSupported, isBright) {
  const playable = rungs.filter((rung) => rung.codecs.some(isPicture) && isSupported(rung.codecs.join(",")));
  const families = (isBright ? ["PQ", "HLG", "SDR"] : ["SDR", "HLG", "PQ"]).flatMap((range) =>
    FAMILIES.map((codecs) => playable.filter((rung) => rung.range === range && codecs.some((codec) => rung.codecs[0]?.startsWith(codec)))));
  const best = families.find((family) => family.length) ?? [];
  return best.toSorted((one, other) => one.bandwidth - other.bandwidth);
}

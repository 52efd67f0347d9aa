// Random changes of training samples, drawn anew for each (seed, variant, sample) and for nothing else.
//
// Pictures and sound are changed as stored, before preprocessing, so that what a crop uncovers is the stored zero (black,
// silence) and the network's layout does not matter. Who calls it: data/batches.h. Thread-safe: no state.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/result.h"
#include "data/preprocess.h"

namespace lathe {

struct Augment {
  // Pictures: a border of so many pixels is added on every side, and the old size is cut out at a random place.
  uint32_t crop_pad = 0;
  bool reflect = false;  // the border mirrors the picture (without repeating the edge) instead of being zero
  bool flip = false;     // left becomes right, every second time
  // Sound: a shift in time by at most this part of the length, silence moves in; a factor of at most so many dB up or down; white
  // noise of a standard deviation of at most this part of full scale.
  double shift = 0;
  double gain_db = 0;
  double noise = 0;
  // Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018): x = l x_i + (1 - l) x_j and the same for the targets, l
  // from Beta(mixup, mixup), j another row of the batch. 0: off.
  double mixup = 0;
  // 0: every epoch draws anew. Else epoch e draws like epoch e modulo variants, so that what a teacher says about a variant can
  // be kept.
  uint32_t variants = 0;

  bool operator==(const Augment&) const = default;
  bool changes_pictures() const { return crop_pad != 0 || flip; }
  bool changes_sound() const { return shift != 0 || gain_db != 0 || noise != 0; }
  bool is_random() const { return changes_pictures() || changes_sound() || mixup != 0; }
};

// Canonical: "crop=4,pad=reflect,flip,shift=0.1,gain=6,noise=0.01,mixup=0.2,variants=8", in this order, without what is off;
// "none".
std::string to_text(const Augment& augment);
// The same fields in any order. Errors name the field: not known, there twice, not a number, out of range.
Result<Augment> parse_augment(std::string_view text);

// Errors: no input has the axes that a change needs, a border as wide as the picture, mixup of an input that is not f32.
// `forms` and `dtypes`: of the inputs as stored and as the network gets them.
Result<void> check_augment(const Augment& augment, std::span<const RawSample> forms, std::span<const DType> dtypes);

// What one sample's changes are; equal for all inputs of the sample.
struct AugmentDraw {
  int32_t down = 0, right = 0;  // of the cut, from the middle, in pixels
  bool flip = false;
  double shift = 0;   // part of the length, positive: later
  double factor = 1;  // of the amplitude
  double noise = 0;   // standard deviation
  Random noise_values{0};
  float mix = 1;  // the sample's own share
};
AugmentDraw draw_augment(const Augment& augment, uint64_t seed, uint64_t variant, uint64_t sample);

// Whether change_sample() has anything to do for an input of this form.
bool applies_to(const Augment& augment, const RawSample& form);
// Writes the changed sample, as large as the stored one. Requires: applies_to(), and check_augment() passed.
void change_sample(const Augment& augment, const AugmentDraw& draw, const RawSample& form, const std::byte* stored,
                   std::byte* changed);

}  // namespace lathe

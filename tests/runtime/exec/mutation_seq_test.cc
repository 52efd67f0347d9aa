// Recurrent layers, attention and box selection with wrong bytes (mutation.h).
#include "tests/runtime/exec/mutation.h"

namespace lathe::test {
namespace {

void mutate_recurrent(Mutated* count) {
  const TestTensor x = random_f32({3, 2, 12}, 1), state = random_f32({2, 3}, 2), y = like(DType::kF32, {3, 2, 3}),
                   h = like(DType::kF32, {2, 3});
  const TestTensor lengths = s32({2}, {1, 9});
  mutate_op({Op::kLstm, {x, random_f32({3, 12}, 3), random_f32({12}, 4), state, lengths, state, random_f32({9}, 5)}, y, {h, h}},
            RecurrentAttrs{}, count);
  mutate_op({Op::kGru, {random_f32({3, 2, 9}, 1), random_f32({3, 9}, 3), random_f32({9}, 4), state, lengths}, y, {h}},
            RecurrentAttrs{}, count);
  mutate_op({Op::kRnn, {random_f32({3, 2, 3}, 1), random_f32({3, 3}, 3)}, y, {h}}, RecurrentAttrs{}, count);
}

void mutate_attention(Mutated* count) {
  const TestTensor scores = random_f32({2, 2, 3, 5}, 1), y = like(DType::kF32, {2, 2, 3, 5});
  mutate_op({Op::kMaskedSoftmax, {scores, random_f32({3, 5}, 2), s64({2}, {3, 9})}, y}, MaskedSoftmaxAttrs{0, 2, 0, 1}, count);
  mutate_op({Op::kLinearAttention,
             {random_f32({2, 3, 8}, 1), random_f32({2, 3, 4}, 2), random_f32({2, 3, 6}, 3), random_f32({2, 2, 2, 3}, 4),
              random_f32({2, 3, 2}, 5), random_f32({2, 3, 1}, 6)},
             like(DType::kF32, {2, 3, 12}),
             {like(DType::kF32, {2, 2, 2, 3})}},
            LinearAttentionAttrs{4, 2, 0.5f}, count);
  mutate_op({Op::kNonMaxSuppression,
             {random_f32({2, 5, 4}, 1), random_f32({2, 3, 5}, 2), s64({1}, {4}), f32({1}, {0.5f}), f32({1}, {0.1f})},
             like(DType::kS64, {24, 3}),
             {like(DType::kS64, {1})}},
            NmsAttrs{}, count);
}

}  // namespace

TEST_CASE("changed bytes of recurrent and attention operators end in an error or in a run within bounds" *
          doctest::skip(kSmallMachine)) {
  MESSAGE("seed " << kMutationSeed);
  Mutated count;
  mutate_recurrent(&count);
  mutate_attention(&count);
  MESSAGE(count.refused << " refused, " << count.ran << " ran");
  CHECK(count.refused > 500);
  CHECK(count.ran > 200);
}

}  // namespace lathe::test

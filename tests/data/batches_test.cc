#include "data/batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "damage.h"
#include "data/npy.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;
using test::TempFolder;

// `n` pictures of 3 x 4 x 5 whose bytes are i + 1, with label i % 10.
Dataset pictures(const TempFolder& folder, int n, const std::string& preprocess = "scale = '1/255'\nlayout = 'nchw'",
                 const std::string& split = "") {
  Bytes x, y;
  for (int i = 0; i < n; ++i) {
    x.insert(x.end(), 60, static_cast<std::byte>(i + 1));
    x.back() = static_cast<std::byte>(i / 256);
    y.push_back(static_cast<std::byte>(i % 10));
  }
  REQUIRE(write_file_atomic(folder.file("x.bin"), x));
  REQUIRE(write_file_atomic(folder.file("y.bin"), y));
  const std::string toml = "format = 'raw'\ndtype = 'u8'\nshape = [3, 4, 5]\naxes = 'chw'\n[preprocess]\n" + preprocess +
                           "\n[split.train]\npaths = 'x.bin'\nlabels = 'y.bin'\n" + split;
  REQUIRE(write_file_atomic(folder.file("set.toml"), toml));
  auto set = Dataset::load(folder.file("set.toml"));
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  return std::move(*set);
}

Batches batches_of(const Dataset& set, const char* augment, uint64_t seed, uint32_t rows) {
  auto made = Batches::make(*set.split("train"), set.inputs(), *parse_augment(augment), seed, rows);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

Batch batch_of(const Batches& batches, uint64_t epoch, uint64_t index) {
  Batch out;
  const auto filled = batches.fill(epoch, index, &out);
  REQUIRE_MESSAGE(filled, (filled ? "" : filled.error().message));
  return out;
}

std::vector<uint64_t> order_of(const Batches& batches, uint64_t epoch) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < batches.per_epoch(); ++i) {
    const Batch b = batch_of(batches, epoch, i);
    out.insert(out.end(), b.samples.begin(), b.samples.end());
  }
  return out;
}

std::vector<float> floats(const std::vector<uint8_t>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

bool equal(const Batch& a, const Batch& b) {
  return a.inputs == b.inputs && a.samples == b.samples && a.labels == b.labels && a.mix == b.mix &&
         a.mixed_labels == b.mixed_labels && a.targets == b.targets && a.partners == b.partners && a.variant == b.variant;
}

TEST_CASE("an epoch shows every sample at most once, in an order of its own") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 23);
  const Batches batches = batches_of(set, "none", 1, 5);
  CHECK(batches.per_epoch() == 4);
  const auto first = order_of(batches, 0), second = order_of(batches, 1);
  CHECK(std::set(first.begin(), first.end()).size() == 20);
  CHECK(first != second);
  CHECK(first == order_of(batches, 0));
  CHECK(first != order_of(batches_of(set, "none", 2, 5), 0));
  std::set<uint64_t> seen;
  for (uint64_t epoch = 0; epoch < 10; ++epoch) {
    const auto order = order_of(batches, epoch);
    seen.insert(order.begin(), order.end());
  }
  CHECK(seen.size() == 23);
}

TEST_CASE("rows are the split's samples as preprocessing gives them, with their labels") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 12, "scale = '1/255'\nmean = [0.1, 0.2, 0.3]\nlayout = 'nhwc'");
  const Batches batches = batches_of(set, "none", 9, 4);
  const Batch b = batch_of(batches, 3, 2);
  REQUIRE(b.rows() == 4);
  std::vector<uint8_t> sample(set.inputs()[0].bytes);
  for (size_t row = 0; row < 4; ++row) {
    REQUIRE(set.split("train")->fill(0, b.samples[row], sample.data()));
    CHECK(std::memcmp(sample.data(), b.inputs[0].data() + row * sample.size(), sample.size()) == 0);
    CHECK(b.labels[row] == set.split("train")->label(b.samples[row]));
  }
  CHECK((b.mix.empty() && b.mixed_labels.empty() && b.partners.empty() && b.targets.empty()));
}

TEST_CASE("a crop uncovers the stored zero, normalised like every other value, in both layouts") {
  const TempFolder folder;
  for (const char* layout : {"nchw", "nhwc"}) {
    const Dataset set = pictures(
        folder, 8, "scale = '1/255'\nmean = [0.1, 0.2, 0.3]\nstd = [0.5, 0.25, 0.125]\nlayout = '" + std::string(layout) + "'");
    const Batch b = batch_of(batches_of(set, "crop=3,flip", 2, 8), 0, 0);
    const auto values = floats(b.inputs[0]);
    const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.25, 0.125};
    int zeros = 0;
    for (size_t row = 0; row < 8; ++row)
      for (size_t c = 0; c < 3; ++c)
        for (size_t p = 0; p < 20; ++p) {
          const float v = values[row * 60 + (std::string(layout) == "nchw" ? c * 20 + p : p * 3 + c)];
          const auto as_stored = static_cast<float>((static_cast<double>(b.samples[row] + 1) / 255 - mean[c]) / std[c]);
          const auto zero = static_cast<float>((0 - mean[c]) / std[c]);
          zeros += v == zero ? 1 : 0;
          CHECK((v == doctest::Approx(as_stored) || v == zero));
        }
    CHECK((zeros > 48 && zeros < 400));
  }
}

TEST_CASE("mixup mixes values and labels of two rows by the same share") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 64, "layout = 'nchw'");
  const Batches batches = batches_of(set, "mixup=0.4", 4, 32);
  const Batch b = batch_of(batches, 1, 1);
  const auto values = floats(b.inputs[0]);
  std::set<float> shares;
  int others = 0;
  for (size_t row = 0; row < 32; ++row) {
    const auto own = static_cast<float>(b.samples[row] + 1), other = static_cast<float>(b.samples[b.partners[row]] + 1);
    CHECK((b.mix[row] >= 0 && b.mix[row] <= 1));
    CHECK(values[row * 60] == doctest::Approx(b.mix[row] * own + (1 - b.mix[row]) * other));
    CHECK(b.labels[row] == static_cast<int32_t>(b.samples[row] % 10));
    CHECK(b.mixed_labels[row] == static_cast<int32_t>(b.samples[b.partners[row]] % 10));
    shares.insert(b.mix[row]);
    others += b.partners[row] != row ? 1 : 0;
  }
  CHECK(shares.size() > 24);
  CHECK(others > 24);
}

TEST_CASE("targets come with their samples and mixup mixes them") {
  const TempFolder folder;
  std::vector<float> rows;
  for (int i = 0; i < 16; ++i) rows.insert(rows.end(), {static_cast<float>(i), static_cast<float>(-i)});
  REQUIRE(write_npy(folder.file("t.npy"), {DType::kF32, {16, 2}, test::bytes_of_values(rows)}));
  const Dataset set = pictures(folder, 16, "layout = 'nchw'", "targets = 't.npy'\n");
  const Batch plain = batch_of(batches_of(set, "none", 4, 8), 0, 0);
  REQUIRE(plain.targets.size() == 16);
  for (size_t row = 0; row < 8; ++row) CHECK(plain.targets[row * 2 + 1] == -static_cast<float>(plain.samples[row]));
  const Batch mixed = batch_of(batches_of(set, "mixup=1", 4, 8), 0, 0);
  for (size_t row = 0; row < 8; ++row) {
    const auto own = static_cast<float>(mixed.samples[row]), other = static_cast<float>(mixed.samples[mixed.partners[row]]);
    CHECK(mixed.targets[row * 2] == doctest::Approx(mixed.mix[row] * own + (1 - mixed.mix[row]) * other));
  }
}

TEST_CASE("variants draw alike every so many epochs, orders do not") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 20);
  const Batches batches = batches_of(set, "crop=3,flip,variants=2", 3, 20);
  std::map<uint64_t, std::vector<uint8_t>> rows[4];
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    const Batch b = batch_of(batches, epoch, 0);
    CHECK(b.variant == epoch % 2);
    for (size_t row = 0; row < 20; ++row)
      rows[epoch][b.samples[row]] = {b.inputs[0].begin() + static_cast<ptrdiff_t>(row * 240),
                                     b.inputs[0].begin() + static_cast<ptrdiff_t>((row + 1) * 240)};
  }
  CHECK(rows[0] == rows[2]);
  CHECK(rows[1] == rows[3]);
  CHECK(rows[0] != rows[1]);
  CHECK(order_of(batches, 0) != order_of(batches, 2));
  const Batches mixing = batches_of(set, "mixup=1,variants=2", 3, 20);
  CHECK(equal(batch_of(mixing, 0, 0), batch_of(mixing, 2, 0)));
  CHECK(!equal(batch_of(mixing, 0, 0), batch_of(mixing, 1, 0)));
}

TEST_CASE("keys name what a row holds, not what its file is called") {
  const TempFolder folder, renamed, changed;
  const Dataset set = pictures(folder, 12), same = pictures(renamed, 12), other = pictures(changed, 13);
  const auto keys = [](const Batches& b, uint64_t epoch) {
    std::map<uint64_t, Hash128> out;
    const Batch batch = batch_of(b, epoch, 0);
    const auto found = b.keys(batch);
    REQUIRE(found);
    for (size_t row = 0; row < batch.rows(); ++row) out[batch.samples[row]] = (*found)[row];
    return out;
  };
  const Batches plain = batches_of(set, "none", 1, 12);
  CHECK(keys(plain, 0) == keys(plain, 1));
  CHECK(keys(plain, 0) == keys(batches_of(same, "none", 2, 12), 5));
  std::set<Hash128> distinct;
  for (const auto& [sample, key] : keys(plain, 0)) distinct.insert(key);
  CHECK(distinct.size() == 12);

  const Batches flipping = batches_of(set, "flip,variants=3", 1, 12);
  CHECK(keys(flipping, 0) == keys(flipping, 3));
  for (const auto& [sample, key] : keys(flipping, 0)) {
    CHECK(key != keys(flipping, 1)[sample]);
    CHECK(key != keys(plain, 0)[sample]);
  }
  const Batches mixing = batches_of(set, "mixup=1,variants=2", 1, 12);
  CHECK(keys(mixing, 0) == keys(mixing, 2));
  CHECK(keys(mixing, 0) != keys(mixing, 1));

  // The same path, another content: the first sample is one that only the second set has.
  Bytes x(12 * 60, std::byte{77});
  for (size_t i = 0; i < 12; ++i) x[i * 60] = static_cast<std::byte>(i);
  REQUIRE(write_file_atomic(folder.file("x.bin"), x));
  const auto again = Dataset::load(folder.file("set.toml"));
  REQUIRE(again);
  for (const auto& [sample, key] : keys(batches_of(*again, "none", 1, 12), 0)) CHECK(!distinct.contains(key));
  CHECK(keys(batches_of(other, "none", 1, 13), 0).size() == 13);
}

TEST_CASE("a stream gives the batches of fill() in order, from any step") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 20);
  const Batches batches = batches_of(set, "crop=2,flip,mixup=0.2", 3, 6);
  for (const uint64_t from : {uint64_t{0}, uint64_t{5}}) {
    BatchStream stream(batches, from);
    for (uint64_t step = from; step < from + 7; ++step) {
      const auto next = stream.next();
      REQUIRE(next);
      CHECK(equal(**next, batch_of(batches, step / 3, step % 3)));
    }
  }
}

TEST_CASE("batches that cannot be made are refused") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 6);
  const auto error = [&](const char* augment, uint32_t rows) {
    const auto made = Batches::make(*set.split("train"), set.inputs(), *parse_augment(augment), 1, rows);
    return made ? "" : made.error().message;
  };
  CHECK(error("none", 0) == "a batch must have at least 1 sample");
  CHECK(error("none", 7) == "split 'train' has 6 samples, a batch has 7");
  CHECK(contains(error("crop=4", 2), "too wide for pictures of 5x4"));
  CHECK(error("none", 6) == "");
}

TEST_CASE("a stream says which sample cannot be preprocessed, as often as it is asked") {
  const TempFolder folder;
  const Dataset set = pictures(folder, 6, "dtype = 's8'\nzero_point = 200");
  const Batches batches = batches_of(set, "none", 1, 6);
  BatchStream stream(batches);
  for (int i = 0; i < 2; ++i) {
    const auto next = stream.next();
    REQUIRE(!next);
    CHECK(contains(next.error().message, "does not fit dtype s8"));
    CHECK(contains(next.error().message, folder.file("x.bin")));
  }
}

}  // namespace
}  // namespace lathe

// Damaged and foreign model files: an error or the same model, never a crash. Run under the sanitizers too.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "graph/file/model_samples.h"
#include "graph/graph_run.h"
#include "runtime/file.h"

namespace lathe::test {
namespace {

std::vector<uint8_t> sample_bytes(size_t sample) {
  WriteOptions options;
  options.targets = {Target::kHost};
  options.calib = {{"c", -1.0f, 1.0f, {1, 2, 65535}, "minmax"}};
  options.tests = {{{{DType::kF32, {1}, {0, 0, 0, 0}}}, {}}};
  const auto bytes = model_bytes(parsed(samples()[sample].body), options);
  REQUIRE(bytes);
  return *bytes;
}

// Reads everything there is, and binds for an image of so many channels. True if the file passes check_model_file().
bool exercise(const std::vector<uint8_t>& bytes, int32_t channels = 3) {
  const FileBytes file = aligned_copy(bytes);
  const auto model = read_model(file);
  const auto program = open_program(file);
  if (program) {
    const auto session = HostSession::create(*program, {kernels::kIsaScalar, 1});
    if (session) {
      Shape shapes[2];
      shapes[0].rank = 4;
      shapes[0].dims[0] = 1;
      shapes[0].dims[1] = shapes[0].dims[2] = 6;
      shapes[0].dims[3] = channels;
      (void)(*session)->bind(
          std::span(shapes, (*program)->program.header().input_count <= 2 ? (*program)->program.header().input_count : 0));
    }
  }
  return check_model_file(file).has_value();
}

TEST_CASE("every truncation of a model file is an error") {
  for (size_t sample : {0, 1, 4}) {
    const std::vector<uint8_t> whole = sample_bytes(sample);
    REQUIRE(exercise(whole));
    for (size_t n = 0; n < whole.size(); ++n) {
      const FileBytes file = aligned_copy(std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)));
      if (read_model(file) || open_program(file)) FAIL_CHECK("accepted " << n << " of " << whole.size() << " bytes");
    }
  }
}

TEST_CASE("flipped bits are found by the check, and never crash a reader") {
  const uint32_t seed = 20260;
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (size_t sample : {0, 1, 2, 4}) {
    const std::vector<uint8_t> whole = sample_bytes(sample);
    const std::string text = print(parsed(samples()[sample].body), true);
    for (int i = 0; i < 2000; ++i) {
      std::vector<uint8_t> damaged = whole;
      const int flips = 1 + i % 3;
      for (int k = 0; k < flips; ++k) damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1u << random() % 8);
      if (!exercise(damaged, sample == 4 ? 4 : 3)) continue;
      // The flip hit a gap between sections.
      const auto model = read_model(aligned_copy(damaged));
      REQUIRE(model);
      CHECK(print(model->graph, true) == text);
    }
  }
}

template <class T>
void put(std::vector<uint8_t>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

TEST_CASE("a newer major is refused, a newer minor is read") {
  std::vector<uint8_t> bytes = sample_bytes(1);
  put<uint16_t>(bytes, offsetof(FileHeader, minor), kFileMinor + 1);
  CHECK(read_model(aligned_copy(bytes)));
  put<uint16_t>(bytes, offsetof(FileHeader, major), kFileMajor + 1);
  CHECK(read_model(aligned_copy(bytes)).error().code == Code::kVersion);
}

TEST_CASE("an unknown optional section is skipped, an unknown required one is an error") {
  std::vector<uint8_t> bytes = sample_bytes(1);
  const uint32_t count = FileHeader(*reinterpret_cast<const FileHeader*>(bytes.data())).section_count;
  for (uint32_t i = 0; i < count; ++i) {
    const size_t at = sizeof(FileHeader) + i * sizeof(FileSection);
    uint32_t kind;
    std::memcpy(&kind, bytes.data() + at, sizeof kind);
    if (kind != static_cast<uint32_t>(SectionKind::kCalib)) continue;
    put<uint32_t>(bytes, at + offsetof(FileSection, kind), 77);
    CHECK(read_model(aligned_copy(bytes))->calib.empty());
    put<uint32_t>(bytes, at + offsetof(FileSection, flags), kSectionRequired);
    CHECK(read_model(aligned_copy(bytes)).error().code == Code::kUnsupported);
    return;
  }
  FAIL("no calib section");
}

}  // namespace
}  // namespace lathe::test

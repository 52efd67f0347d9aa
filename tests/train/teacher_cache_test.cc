#include "train/teacher_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include "base/atomic_file.h"
#include "base/file.h"
#include "temp_folder.h"

namespace lathe::train {
namespace {

using test::TempFolder;

constexpr uint32_t kOutputs = 3;
constexpr uint64_t kRowBytes = 16 + 2 * kOutputs;

// `n` pictures of 4 x 4: sample i holds `first` + i everywhere but in a corner.
Dataset pictures(const TempFolder& folder, int n, int first = 1) {
  std::vector<std::byte> x;
  for (int i = 0; i < n; ++i) {
    x.insert(x.end(), 16, static_cast<std::byte>(first + i));
    x[x.size() - 16] = std::byte{255};
  }
  REQUIRE(write_file_atomic(folder.file("x.bin"), x));
  REQUIRE(write_file_atomic(folder.file("set.toml"),
                            "format = 'raw'\ndtype = 'u8'\nshape = [4, 4]\naxes = 'hw'\n[split.train]\npaths = 'x.bin'\n"));
  auto set = Dataset::load(folder.file("set.toml"));
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  return std::move(*set);
}

Batches batches_of(const Dataset& set, const char* augment = "none", uint64_t seed = 1, uint32_t rows = 4) {
  auto made = Batches::make(*set.split("train"), set.inputs(), *parse_augment(augment), seed, rows);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

TeacherCacheOptions options_in(const std::string& folder, uint64_t teacher = 1) {
  return {.folder = folder, .teacher = {teacher, 2}, .preprocessing = {3, 4}, .outputs = kOutputs};
}

// A teacher whose outputs are a weighted sum of a row, a part of it and the first pixel, and that counts what it is asked.
struct Teacher {
  const Batch* batch = nullptr;
  uint64_t asked = 0, calls = 0;

  static std::vector<float> says(const Batch& b, size_t row) {
    const auto* x = reinterpret_cast<const float*>(b.inputs[0].data()) + row * 16;
    float sum = 0;
    for (size_t i = 0; i < 16; ++i) sum += x[i] * static_cast<float>(i + 1) / 64;
    return {sum, -sum / 7, x[0]};
  }
  TeacherCache::Compute compute() {
    return [this](std::span<const uint32_t> rows, std::span<float> values) -> Result<void> {
      ++calls;
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto said = says(*batch, rows[i]);
        std::copy(said.begin(), said.end(), values.begin() + static_cast<ptrdiff_t>(i * kOutputs));
      }
      asked += rows.size();
      return {};
    };
  }
};

TeacherCache opened(const TeacherCacheOptions& options, const Batches& batches) {
  auto cache = TeacherCache::open(options, batches);
  REQUIRE_MESSAGE(cache, (cache ? "" : cache.error().message));
  return std::move(*cache);
}

// Runs epochs through the cache, checks every value, and returns how many rows the teacher was asked for.
uint64_t run(TeacherCache& cache, const Batches& batches, uint64_t first_epoch, uint64_t epochs) {
  Teacher teacher;
  for (uint64_t e = first_epoch; e < first_epoch + epochs; ++e)
    for (uint64_t i = 0; i < batches.per_epoch(); ++i) {
      Batch batch;
      std::vector<float> out;
      REQUIRE(batches.fill(e, i, &batch));
      teacher.batch = &batch;
      const auto done = cache.outputs(batch, teacher.compute(), &out);
      REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
      REQUIRE(out.size() == batch.rows() * kOutputs);
      for (size_t row = 0; row < batch.rows(); ++row) {
        const auto said = Teacher::says(batch, row);
        for (size_t k = 0; k < kOutputs; ++k) {
          CHECK(out[row * kOutputs + k] == doctest::Approx(said[k]).epsilon(1e-3));
        }
      }
    }
  return teacher.asked;
}

uint64_t run_once(const TeacherCacheOptions& options, const Batches& batches, uint64_t epochs = 1) {
  TeacherCache cache = opened(options, batches);
  const uint64_t asked = run(cache, batches, 0, epochs);
  REQUIRE(cache.flush());
  return asked;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.push_back(entry.path().string());
  return out;
}

TEST_CASE("a teacher is asked once per sample, in this run and in later ones") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 12);
  const Batches batches = batches_of(set), other_order = batches_of(set, "none", 7, 3);
  TeacherCache cache = opened(options_in(folder.file("cache")), batches);
  CHECK(run(cache, batches, 0, 1) == 12);
  CHECK(run(cache, batches, 1, 3) == 0);
  CHECK(cache.stats().rows == 12);
  CHECK(cache.stats().bytes == 12 * kRowBytes);
  CHECK(cache.stats().computed == 12);
  CHECK(cache.stats().found == 36);
  REQUIRE(cache.flush());
  CHECK(run_once(options_in(folder.file("cache")), other_order) == 0);
}

TEST_CASE("values are those of fp16 whether they are fresh, found or read") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 4);
  const Batches batches = batches_of(set);
  Batch batch;
  REQUIRE(batches.fill(0, 0, &batch));
  Teacher teacher{&batch};
  std::vector<float> fresh, found, read;
  {
    TeacherCache cache = opened(options_in(folder.path()), batches);
    REQUIRE(cache.outputs(batch, teacher.compute(), &fresh));
    REQUIRE(cache.outputs(batch, teacher.compute(), &found));
  }
  TeacherCache cache = opened(options_in(folder.path()), batches);
  REQUIRE(cache.outputs(batch, teacher.compute(), &read));
  CHECK(teacher.calls == 1);
  CHECK(fresh == found);
  CHECK(fresh == read);
  CHECK(fresh[1] != Teacher::says(batch, 0)[1]);
}

TEST_CASE("only the rows that are missing are computed") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 12);
  const Batches small = batches_of(set, "none", 1, 4), large = batches_of(set, "none", 1, 12);
  {
    TeacherCache cache = opened(options_in(folder.path()), small);
    Teacher teacher;
    Batch batch;
    std::vector<float> out;
    REQUIRE(small.fill(0, 0, &batch));
    teacher.batch = &batch;
    REQUIRE(cache.outputs(batch, teacher.compute(), &out));
  }
  CHECK(run_once(options_in(folder.path()), large) == 8);
}

TEST_CASE("another teacher, other preprocessing, other draws: nothing is found; equal ones: everything") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 8);
  const TeacherCacheOptions options = options_in(folder.path());
  const auto asked = [&](const TeacherCacheOptions& o, const char* augment, uint64_t seed, uint64_t epochs = 1) {
    return run_once(o, batches_of(set, augment, seed), epochs);
  };
  CHECK(asked(options, "none", 1) == 8);
  CHECK(asked(options, "none", 2) == 0);
  CHECK(asked(options_in(folder.path(), 9), "none", 1) == 8);
  TeacherCacheOptions prepared = options;
  prepared.preprocessing.low = 99;
  CHECK(asked(prepared, "none", 1) == 8);
  CHECK(asked(options, "crop=2,flip,variants=2", 1, 6) == 16);
  CHECK(asked(options, "crop=2,flip,variants=2", 1, 6) == 0);
  CHECK(asked(options, "crop=2,flip,variants=2", 2, 6) == 16);
  CHECK(asked(options, "crop=1,flip,variants=2", 1, 2) == 16);
  CHECK(asked(options, "crop=2,flip", 1, 3) == 24);
  CHECK(asked(options, "crop=2,flip", 1, 3) == 0);
  CHECK(asked(options, "mixup=0.5,variants=2", 1, 4) == 16);
}

TEST_CASE("the same file names with other content are other samples") {
  const TempFolder data, folder;
  const Dataset before = pictures(data, 8, 1);
  CHECK(run_once(options_in(folder.path()), batches_of(before)) == 8);
  // Under the same paths: four of the old samples, at other places, and four new ones. run() checks every value.
  const Dataset after = pictures(data, 8, 5);
  CHECK(run_once(options_in(folder.path()), batches_of(after)) == 4);
}

TEST_CASE("a segment that is damaged or not its own is passed over and computed again") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 4);
  const Batches batches = batches_of(set);
  CHECK(run_once(options_in(folder.path()), batches) == 4);
  REQUIRE(files_in(folder.path()).size() == 1);
  const std::string path = files_in(folder.path())[0];
  const auto whole = read_file(path);
  REQUIRE(whole);
  for (size_t i = 0; i < whole->size(); ++i) {
    auto bad = *whole;
    bad[i] ^= std::byte{4};
    REQUIRE(write_file_atomic(path, bad));
    const TeacherCache cache = opened(options_in(folder.path()), batches);
    CHECK(cache.stats().rows == 0);
    REQUIRE(cache.stats().damaged.size() == 1);
    CHECK(cache.stats().damaged[0] == "'" + path + "' is damaged");
  }
  for (size_t n = 0; n < whole->size(); n += 7) {
    REQUIRE(write_file_atomic(path, std::span(*whole).first(n)));
    CHECK(opened(options_in(folder.path()), batches).stats().damaged.size() == 1);
  }
  CHECK(run_once(options_in(folder.path()), batches) == 4);

  // A whole segment under the name of another teacher's.
  const TempFolder other;
  CHECK(run_once(options_in(other.path(), 5), batches) == 4);
  REQUIRE(write_file_atomic(files_in(other.path())[0], *whole));
  const TeacherCache cache = opened(options_in(other.path(), 5), batches);
  CHECK(cache.stats().rows == 0);
  REQUIRE(cache.stats().damaged.size() == 1);
  CHECK(cache.stats().damaged[0].ends_with("belongs to another teacher or other data"));
}

TEST_CASE("what an interruption leaves is used") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 12);
  const Batches batches = batches_of(set);
  {
    TeacherCache cache = opened(options_in(folder.path()), batches);
    Batch batch;
    Teacher teacher{&batch};
    std::vector<float> out;
    REQUIRE(batches.fill(0, 0, &batch));
    REQUIRE(cache.outputs(batch, teacher.compute(), &out));
    REQUIRE(cache.flush());
    REQUIRE(batches.fill(0, 1, &batch));
    const auto stopped = cache.outputs(
        batch, [](auto, auto) -> Result<void> { return fail(Code::kCancelled, "interrupted"); }, &out);
    REQUIRE(!stopped);
    CHECK(stopped.error().code == Code::kCancelled);
  }
  REQUIRE(write_file_atomic(files_in(folder.path())[0] + ".tmp", "half a segment"));
  CHECK(run_once(options_in(folder.path()), batches) == 8);
}

TEST_CASE("outputs that fp16 does not hold are an error with the sample") {
  const TempFolder data;
  const Dataset set = pictures(data, 4);
  const Batches batches = batches_of(set);
  Batch batch;
  REQUIRE(batches.fill(0, 0, &batch));
  for (const float bad : {65520.0f, -1e9f, std::numeric_limits<float>::quiet_NaN()}) {
    const TempFolder folder;
    TeacherCache cache = opened(options_in(folder.path()), batches);
    std::vector<float> out;
    const auto done = cache.outputs(
        batch,
        [&](auto, std::span<float> values) -> Result<void> {
          std::fill(values.begin(), values.end(), 1.0f);
          values[2 * kOutputs + 1] = bad;
          return {};
        },
        &out);
    REQUIRE(!done);
    CHECK(done.error().message == "sample " + std::to_string(batch.samples[2]) + ": the teacher's output 1 is " +
                                      std::to_string(bad) + ", which fp16 does not hold");
  }
}

TEST_CASE("rows beyond the limit are computed every time and counted") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 12);
  const Batches batches = batches_of(set);
  TeacherCacheOptions options = options_in(folder.path());
  options.max_bytes = 5 * kRowBytes + 1;
  TeacherCache cache = opened(options, batches);
  CHECK(run(cache, batches, 0, 1) == 12);
  CHECK(run(cache, batches, 1, 1) == 7);
  CHECK(cache.stats().rows == 5);
  CHECK(cache.stats().not_kept == 14);
  CHECK(cache.stats().bytes <= options.max_bytes);
}

TEST_CASE("many small segments become one") {
  const TempFolder data, folder;
  const Dataset set = pictures(data, 80);
  const Batches batches = batches_of(set, "none", 1, 2);
  {
    TeacherCache cache = opened(options_in(folder.path()), batches);
    for (uint64_t i = 0; i < 40; ++i) {
      Batch batch;
      Teacher teacher{&batch};
      std::vector<float> out;
      REQUIRE(batches.fill(0, i, &batch));
      REQUIRE(cache.outputs(batch, teacher.compute(), &out));
      REQUIRE(cache.flush());
    }
  }
  CHECK(folder.entries() == 40);
  CHECK(run_once(options_in(folder.path()), batches) == 0);
  CHECK(folder.entries() == 1);
  CHECK(run_once(options_in(folder.path()), batches) == 0);
}

TEST_CASE("the default folder lies beside the output, and one that cannot be made is named") {
  CHECK(teacher_cache_folder("out/student.lathe") == "out/teacher-cache");
  CHECK(teacher_cache_folder("student.lathe") == "teacher-cache");
  const TempFolder data;
  const Dataset set = pictures(data, 4);
  const Batches batches = batches_of(set);
  const auto failed = TeacherCache::open(options_in(data.file("x.bin") + "/cache"), batches);
  REQUIRE(!failed);
  CHECK(failed.error().message.starts_with("cannot make folder '" + data.file("x.bin") + "/cache': "));
  TeacherCacheOptions none = options_in(data.path());
  none.outputs = 0;
  CHECK(!TeacherCache::open(none, batches));
}

}  // namespace
}  // namespace lathe::train

// `lathe dataset init`: what it guesses must load as it is.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "damage.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "sound_file.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;
using test::TempFolder;

// Guesses from `path`, writes the text into the folder and loads it.
Dataset guess(const TempFolder& folder, const std::string& path, std::string* text) {
  auto toml = dataset_init(path, folder.path());
  REQUIRE_MESSAGE(toml, (toml ? "" : toml.error().message));
  *text = *toml;
  REQUIRE(write_file_atomic(folder.file("guess.toml"), *toml));
  auto set = Dataset::load(folder.file("guess.toml"));
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message) << "\n" << *toml);
  return std::move(*set);
}

Bytes distinct_bytes(size_t samples, size_t sample_bytes) {
  Bytes out(samples * sample_bytes);
  for (size_t i = 0; i < samples; ++i)
    for (size_t k = 0; k < 4; ++k) out[i * sample_bytes + k] = static_cast<std::byte>(k == 0 ? 0 : i >> 8 * (k - 1) & 255);
  return out;
}

Bytes idx(std::initializer_list<uint8_t> dims, const Bytes& data) {
  Bytes out = {std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(dims.size())};
  for (const uint8_t d : dims) out.insert(out.end(), {std::byte{0}, std::byte{0}, std::byte{0}, static_cast<std::byte>(d)});
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

TEST_CASE("idx files pair with their labels and the missing splits are cut from train") {
  const TempFolder folder;
  std::filesystem::create_directory(folder.file("d"));
  REQUIRE(write_file_atomic(folder.file("d/train-images-idx3-ubyte"), idx({40, 2, 2}, distinct_bytes(40, 4))));
  REQUIRE(write_file_atomic(folder.file("d/train-labels-idx1-ubyte"), idx({40}, Bytes(40))));
  REQUIRE(write_file_atomic(folder.file("d/t10k-images-idx3-ubyte"), idx({1, 2, 2}, Bytes(4, std::byte{9}))));
  REQUIRE(write_file_atomic(folder.file("d/t10k-labels-idx1-ubyte"), idx({1}, Bytes(1))));
  std::string text;
  const Dataset set = guess(folder, folder.file("d"), &text);
  CHECK(set.split("train")->size() == 32);
  CHECK(set.split("calib")->size() == 4);
  CHECK(set.split("val")->size() == 4);
  CHECK(set.split("test")->size() == 1);
  CHECK(set.split("test")->has_labels());
  CHECK(set.inputs()[0].dims == std::vector<int64_t>{1, 2, 2});
  CHECK(contains(text, "paths = \"d/train-images-idx3-ubyte\""));
}

TEST_CASE("a CIFAR file alone is cut into all four splits") {
  const TempFolder folder;
  REQUIRE(write_file_atomic(folder.file("data.bin"), distinct_bytes(20, 3073)));
  std::string text;
  const Dataset set = guess(folder, folder.file("data.bin"), &text);
  CHECK(set.split("train")->size() == 14);
  CHECK(set.split("test")->size() == 2);
  CHECK(set.inputs()[0].dims == std::vector<int64_t>{3, 32, 32});
}

TEST_CASE("an archive's arrays are listed and its labels found") {
  const TempFolder folder;
  std::vector<float> x(40);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  REQUIRE(write_npz(folder.file("a.npz"),
                    {{"x", {DType::kF32, {20, 2}, test::bytes_of_values(x)}}, {"labels", {DType::kU8, {20}, Bytes(20)}}}));
  std::string text;
  const Dataset set = guess(folder, folder.file("a.npz"), &text);
  CHECK(contains(text, "# array 'x': 20x2 f32"));
  CHECK(set.split("val")->size() == 2);
  CHECK(set.split("val")->has_labels());
}

TEST_CASE("a CSV's label column is found by its name") {
  const TempFolder folder;
  std::string csv = "a,b,label\n";
  for (int i = 0; i < 10; ++i) csv += std::to_string(i) + ",1," + std::to_string(i % 3) + "\n";
  REQUIRE(write_file_atomic(folder.file("train.csv"), csv));
  std::string text;
  const Dataset set = guess(folder, folder.path(), &text);
  CHECK(contains(text, "label_column = \"label\""));
  CHECK(set.inputs()[0].dims == std::vector<int64_t>{2});
  CHECK(set.split("test")->size() == 1);
}

TEST_CASE("folders of pictures become splits by their names") {
  const TempFolder folder;
  const std::string golden = LATHE_SOURCE_ROOT "/tests/data/golden/gradient.";
  for (const auto& [name, kind] :
       {std::pair("d/train/cat/1.png", "png"), {"d/val/cat/2.jpg", "jpg"}, {"d/test/cat/3.bmp", "bmp"}}) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    std::filesystem::copy_file(golden + kind, folder.file(name));
  }
  std::string text;
  // Calibration would be cut from train, which has one picture only: too few for a tenth.
  auto toml = dataset_init(folder.file("d"), folder.path());
  REQUIRE(toml);
  CHECK(contains(*toml, "format = \"image-folder\""));
  CHECK(contains(*toml, "[split.val]\npaths = \"d/val\""));
  CHECK(contains(*toml, "[split.test]\npaths = \"d/test\""));
  CHECK(contains(*toml, "resize = [224, 224]"));
}

#ifdef LATHE_AUDIO
TEST_CASE("sounds give their rate and length, and their names the label") {
  const TempFolder folder;
  for (const char* split : {"train", "test"}) {
    std::filesystem::create_directories(folder.file("d") + "/" + split);
    for (int digit = 0; digit < 2; ++digit)
      for (int i = 0; i < 10; ++i) {
        const auto seed = static_cast<int16_t>(split[1] + 100 * digit + i);
        const std::vector<int16_t> samples(static_cast<size_t>(400 + 10 * i), seed);
        REQUIRE(write_file_atomic(folder.file("d") + "/" + split + "/" + std::to_string(digit) + "_ann_" + std::to_string(i) + ".wav",
                                  test::wav_bytes(1000, 1, samples)));
      }
  }
  const auto toml = dataset_init(folder.file("d"), folder.path());
  REQUIRE_MESSAGE(toml, (toml ? "" : toml.error().message));
  for (const char* line : {"format = \"wav-folder\"", "file_name = \"{label}_{}_{}\"", "rate = 1000 ", "seconds = 0.500 ", "# mono = true",
                           "[split.train]\npaths = \"d/train\"", "[split.test]\npaths = \"d/test\""})
    CHECK_MESSAGE(contains(*toml, line), line << " in " << *toml);
  std::string usable = *toml;
  usable.replace(usable.find("features = \"log-mel\""), 20, "features = \"samples\"");
  usable.replace(usable.find("layout ="), 0, "# ");
  REQUIRE(write_file_atomic(folder.file("set.toml"), usable));
  const auto report = dataset_check(folder.file("set.toml"));
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  CHECK(report->classes == std::vector<std::string>{"0", "1"});
  CHECK(report->problems.empty());
}
#endif

TEST_CASE("a folder with nothing that it knows and a path that is not there are errors") {
  const TempFolder folder;
  REQUIRE(write_file_atomic(folder.file("readme.md"), "hello"));
  CHECK(contains(dataset_init(folder.path(), ".").error().message, "no idx, CIFAR, npz, npy, csv, picture or sound files found"));
  CHECK(contains(dataset_init(folder.file("none"), ".").error().message, "none': no such file or directory"));
}

}  // namespace
}  // namespace lathe

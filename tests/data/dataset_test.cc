#include "data/dataset.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/atomic_file.h"
#include "base/file.h"
#include "damage.h"
#include "data/metrics.h"
#include "data/npy.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;
using test::TempFolder;

template <class T>
HostTensor tensor(DType dtype, std::vector<int64_t> dims, std::vector<T> values) {
  return {dtype, std::move(dims), test::bytes_of_values(values)};
}

// n samples of 4 bytes that differ: i, i + 1, i + 2, i + 3, with i counting on from `first`.
Bytes distinct(int n, int first = 0) {
  Bytes out;
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < 4; ++k) out.push_back(static_cast<std::byte>(k == 0 ? first + i : k));
  return out;
}

void put(const TempFolder& folder, const std::string& name, const Bytes& bytes) {
  REQUIRE(write_file_atomic(folder.file(name), bytes));
}

Result<Dataset> load(const TempFolder& folder, const std::string& toml) {
  REQUIRE(write_file_atomic(folder.file("set.toml"), toml));
  return Dataset::load(folder.file("set.toml"));
}

std::string error_of(const TempFolder& folder, const std::string& toml) {
  const auto set = load(folder, toml);
  return set ? "" : set.error().message;
}

template <class T>
std::vector<T> sample(const Dataset& set, const char* split, uint64_t index, size_t input = 0) {
  std::vector<T> out(set.inputs()[input].bytes / sizeof(T));
  const auto filled = set.split(split)->fill(input, index, out.data());
  REQUIRE_MESSAGE(filled, (filled ? "" : filled.error().message));
  return out;
}

const std::string kRaw = "format = 'raw'\ndtype = 'u8'\nshape = [4]\n";

TEST_CASE("raw files are cut into samples by ranges, joined in order and labelled") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(3));
  put(folder, "b.bin", distinct(2, 3));
  put(folder, "y.bin", {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{1}, std::byte{0}});
  const std::string files = "paths = ['a.bin', 'b.bin']\nlabels = 'y.bin'\n";
  const auto set = load(folder, kRaw + "[split.train]\n" + files + "range = [0, 2]\n[split.test]\n" + files + "range = [2, 5]\n");
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  CHECK(set->split("train")->size() == 2);
  CHECK(set->split("test")->size() == 3);
  CHECK(sample<float>(*set, "test", 1) == std::vector<float>{3, 1, 2, 3});
  CHECK(set->split("test")->label(0) == 2);
  CHECK(set->split("test")->label(2) == 0);
  CHECK(set->split("test")->where(1) == "file '" + folder.file("b.bin") + "', sample 0");
  CHECK(set->classes() == std::vector<std::string>{"0", "1", "2"});
  CHECK(set->split("val") == nullptr);
}

TEST_CASE("fractions of one file share nothing, miss nothing and depend on the seed alone") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(100));
  const auto text = [](int seed) {
    return kRaw + "seed = " + std::to_string(seed) +
           "\n[split.train]\npaths = 'a.bin'\nfraction = [0, 0.7]\n[split.val]\npaths = 'a.bin'\nfraction = [0.7, 0.85]\n"
           "[split.test]\npaths = 'a.bin'\nfraction = [0.85, 1]\n";
  };
  const auto values = [&](const Dataset& set, const char* split) {
    std::vector<float> out;
    for (uint64_t i = 0; i < set.split(split)->size(); ++i) out.push_back(sample<float>(set, split, i)[0]);
    return out;
  };
  const auto a = load(folder, text(1)), b = load(folder, text(1)), c = load(folder, text(2));
  REQUIRE(a);
  REQUIRE(c);
  std::set<float> all;
  for (const char* split : {"train", "val", "test"})
    for (const float v : values(*a, split)) all.insert(v);
  CHECK(all.size() == 100);
  CHECK(a->split("train")->size() == 70);
  CHECK(a->split("val")->size() == 15);
  CHECK(values(*a, "test") == values(*b, "test"));
  CHECK(values(*a, "test") != values(*c, "test"));
  // Not the first or last ones.
  CHECK(values(*a, "train") != values(*c, "train"));
}

TEST_CASE("several named inputs come from several files or from one archive") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(2));
  put(folder, "b.bin", test::bytes_of_values(std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto raw = load(folder, R"(format = 'raw'
[[input]]
name = 'image'
dtype = 'u8'
shape = [4]
preprocess = {dtype = 'u8'}
[[input]]
name = 'pose'
dtype = 'f32'
shape = [3]
preprocess = {scale = 2}
[split.test]
paths = {image = 'a.bin', pose = 'b.bin'}
)");
  REQUIRE_MESSAGE(raw, (raw ? "" : raw.error().message));
  REQUIRE(raw->inputs().size() == 2);
  CHECK(raw->inputs()[0].dtype == DType::kU8);
  CHECK(sample<uint8_t>(*raw, "test", 1, 0) == std::vector<uint8_t>{1, 1, 2, 3});
  CHECK(sample<float>(*raw, "test", 1, 1) == std::vector<float>{8, 10, 12});
  CHECK(raw->preprocessing()[1].name == "pose");

  REQUIRE(write_npz(folder.file("x.npz"), {{"image", tensor<uint8_t>(DType::kU8, {2, 2}, {1, 2, 3, 4})},
                                           {"y", tensor<int64_t>(DType::kS64, {2}, {1, 0})},
                                           {"pose", tensor<double>(DType::kF64, {2}, {0.5, 0.25})}}));
  const auto npz = load(folder, R"(format = 'npz'
label_key = 'y'
[[input]]
name = 'p'
key = 'pose'
[[input]]
name = 'i'
key = 'image'
[split.test]
paths = 'x.npz'
)");
  REQUIRE_MESSAGE(npz, (npz ? "" : npz.error().message));
  CHECK(sample<float>(*npz, "test", 1, 0) == std::vector<float>{0.25});
  CHECK(sample<float>(*npz, "test", 0, 1) == std::vector<float>{1, 2});
  CHECK(npz->split("test")->label(0) == 1);
}

TEST_CASE("a CSV gives its columns in the order asked for and labels by name") {
  const TempFolder folder;
  put(folder, "a.csv", test::bytes_of("b,label,a\n1,cat,2\n3,dog,4\n"));
  const std::string head = "format = 'csv'\nlabel_column = 'label'\nclasses = ['dog', 'cat']\n",
                    split = "[split.test]\npaths = 'a.csv'\n";
  const auto all = load(folder, head + split);
  REQUIRE_MESSAGE(all, (all ? "" : all.error().message));
  CHECK(sample<float>(*all, "test", 1) == std::vector<float>{3, 4});
  CHECK(all->split("test")->label(0) == 1);
  const auto some = load(folder, head + "columns = ['a', 'b']\n" + split);
  REQUIRE(some);
  CHECK(sample<float>(*some, "test", 0) == std::vector<float>{2, 1});
  CHECK(contains(error_of(folder, "format = 'csv'\n" + split), "a.csv:2: column 'label' has 'cat', which is no number"));
  CHECK(contains(error_of(folder, head + "columns = ['c']\n" + split), "a.csv: no column 'c'"));
  CHECK(contains(error_of(folder, "format = 'csv'\nlabel_column = 'label'\nclasses = ['dog', 'cow']\n" + split),
                 "a.csv:2: 'cat' is neither a class"));
}

TEST_CASE("an image folder takes its classes from its folders and resizes") {
  const TempFolder folder;
  const std::string golden = LATHE_SOURCE_ROOT "/tests/data/golden/gradient.";
  for (const auto& [name, kind] : {std::pair("train/cat/1.png", "png"), {"train/dog/1.JPG", "jpg"}, {"test/dog/1.bmp", "bmp"}}) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    std::filesystem::copy_file(golden + kind, folder.file(name));
  }
  REQUIRE(write_file_atomic(folder.file("train/dog/notes.txt"), "not a picture"));
  const std::string splits = "[split.train]\npaths = 'train'\n[split.test]\npaths = 'test'\n";
  const auto set = load(folder, "format = 'image-folder'\n[preprocess]\nlayout = 'nchw'\nresize = [3, 4]\n" + splits);
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  CHECK(set->classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(set->split("train")->size() == 2);
  CHECK(set->split("test")->label(0) == 1);
  CHECK(set->inputs()[0].dims == std::vector<int64_t>{3, 3, 4});
  // Each output pixel is the mean of 2 x 2: red of x = 0, 1 is 16, green of y = 0, 1 is 20.
  const auto v = sample<float>(*set, "test", 0);
  CHECK(v[0] == 16);
  CHECK(v[12] == 20);
  const auto whole = load(folder, "format = 'image-folder'\n" + splits);
  REQUIRE(whole);
  CHECK(whole->inputs()[0].dims == std::vector<int64_t>{6, 8, 3});
  CHECK(contains(error_of(folder, "format = 'image-folder'\nclasses = ['cat']\n" + splits), "train/dog' is no class of the set"));
  CHECK(contains(error_of(folder, "format = 'image-folder'\n[split.test]\npaths = 'nowhere'\n"), "cannot read folder"));
  // Two classes with the same file in two splits.
  std::filesystem::copy_file(folder.file("train/cat/1.png"), folder.file("test/dog/2.png"));
  CHECK(contains(error_of(folder, "format = 'image-folder'\n" + splits), "test/dog/2.png') is also split 'train' sample 0"));
}

TEST_CASE("pictures of several sizes need a resize, and the odd one is named") {
  const TempFolder folder;
  std::filesystem::copy_file(LATHE_SOURCE_ROOT "/tests/data/golden/gradient.png", folder.file("a.png"));
  // A BMP of 1 x 1 pixel.
  Bytes bmp = read_file(LATHE_SOURCE_ROOT "/tests/data/golden/gradient.bmp").value();
  bmp[18] = bmp[22] = std::byte{1};
  put(folder, "b.bmp", bmp);
  const auto set = load(folder, "format = 'image-folder'\n[split.test]\npaths = '.'\n");
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  CHECK_FALSE(set->split("test")->has_labels());
  std::vector<float> out(set->inputs()[0].bytes / sizeof(float));
  REQUIRE(set->split("test")->fill(0, 0, out.data()));
  const auto bad = set->split("test")->fill(0, 1, out.data());
  REQUIRE_FALSE(bad);
  CHECK(contains(bad.error().message, "b.bmp': picture of 1x1 pixels, the first one has 8x6"));
}

TEST_CASE("groups are columns by sample and follow the range") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(4));
  put(folder, "g.csv", test::bytes_of("user,hour\n7,1\n8,2\n7,3\n9,4\n"));
  const auto set = load(folder, kRaw + "[split.test]\npaths = 'a.bin'\ngroups = 'g.csv'\nrange = [1, 4]\n");
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  const DataSplit& test = *set->split("test");
  REQUIRE(test.groups().size() == 2);
  CHECK(test.groups()[0].name == "user");
  CHECK(test.groups()[0].values == std::vector<std::string>{"8", "7", "9"});
  put(folder, "g.csv", test::bytes_of("user\n7\n"));
  CHECK(contains(error_of(folder, kRaw + "[split.test]\npaths = 'a.bin'\ngroups = 'g.csv'\n"),
                 "g.csv: 1 lines of groups for 4 samples"));
}

TEST_CASE("targets are rows by sample and follow the range") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(4));
  HostTensor rows{DType::kS32, {4, 2}, std::vector<std::byte>(32)};
  for (int32_t i = 0; i < 8; ++i) rows.as<int32_t>()[static_cast<size_t>(i)] = i;
  REQUIRE(write_npy(folder.file("t.npy"), rows));
  const auto set = load(folder, kRaw + "[split.test]\npaths = 'a.bin'\ntargets = 't.npy'\nrange = [1, 4]\n");
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  const DataSplit& test = *set->split("test");
  REQUIRE(test.has_targets());
  REQUIRE(test.target(2).size() == 2);
  CHECK(test.target(2)[1] == 7.0f);
  rows.dims = {2, 4};
  REQUIRE(write_npy(folder.file("t.npy"), rows));
  CHECK(contains(error_of(folder, kRaw + "[split.test]\npaths = 'a.bin'\ntargets = 't.npy'\n"),
                 "t.npy: 2 rows of targets for 4 samples"));
}

TEST_CASE("a sample in two splits is an error that names both, a repeated one in a split is not") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(4));
  put(folder, "b.bin", distinct(3, 2));
  Bytes twice = distinct(2, 50);
  const Bytes again = distinct(2, 50);
  twice.insert(twice.end(), again.begin(), again.end());
  put(folder, "c.bin", twice);
  const std::string message = error_of(folder, kRaw + "[split.train]\npaths = 'a.bin'\n[split.test]\npaths = 'b.bin'\n");
  CHECK(contains(message, "split 'test' sample 0 (file '" + folder.file("b.bin") +
                              "', sample 0) is also split 'train' sample 2 (file '" + folder.file("a.bin") +
                              "', sample 2), and 1 more are shared"));
  CHECK(contains(
      error_of(folder, kRaw + "[split.train]\npaths = 'a.bin'\nrange = [0, 3]\n[split.calib]\npaths = 'a.bin'\nrange = [2, 4]\n"),
      "split 'calib' sample 0"));
  CHECK(load(folder, kRaw + "[split.train]\npaths = 'c.bin'\n"));
}

TEST_CASE("NaN and infinities are errors that name the sample") {
  const TempFolder folder;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    put(folder, "a.bin", test::bytes_of_values(std::vector<float>{1, 2, 3, 4, 5, bad}));
    CHECK(contains(error_of(folder, "format = 'raw'\ndtype = 'f32'\nshape = [2]\n[split.test]\npaths = 'a.bin'\n"),
                   "a.bin', sample 2: element 1 is NaN or infinite"));
  }
  // The range leaves the bad one out.
  CHECK(load(folder, "format = 'raw'\ndtype = 'f32'\nshape = [2]\n[split.test]\npaths = 'a.bin'\nrange = [0, 2]\n"));
}

TEST_CASE("counts that do not fit are errors with both numbers") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(4));
  put(folder, "y.bin", Bytes(3));
  put(folder, "odd.bin", Bytes(7));
  put(folder, "empty.bin", {});
  const std::string paths = "[split.test]\npaths = 'a.bin'\n";
  CHECK(contains(error_of(folder, kRaw + paths + "labels = 'y.bin'\n"),
                 "y.bin: 3 labels for 4 samples of '" + folder.file("a.bin") + "'"));
  CHECK(contains(error_of(folder, kRaw + "[split.test]\npaths = 'odd.bin'\n"),
                 "odd.bin: 7 bytes are no whole number of samples of 4 (4 u8)"));
  CHECK(contains(error_of(folder, kRaw + "[split.test]\npaths = 'empty.bin'\n"), "empty.bin: no samples"));
  CHECK(contains(error_of(folder, "format = 'cifar-bin'\n[split.test]\npaths = 'odd.bin'\n"),
                 "odd.bin: 7 bytes are no whole number of records of 3073"));
  CHECK(contains(error_of(folder, kRaw + paths + "range = [2, 9]\n"), "split 'test' has range [2, 9), its files hold 4 samples"));
  CHECK(contains(error_of(folder, kRaw + paths + "fraction = [0, 0.01]\n"), "split 'test' is empty"));
  CHECK(contains(error_of(folder, kRaw + "[split.test]\npaths = 'none.bin'\n"),
                 "cannot read '" + folder.file("none.bin") + "': no such file"));
  put(folder, "y.bin", {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}});
  CHECK(contains(error_of(folder, "classes = ['a', 'b', 'c']\n" + kRaw + paths + "labels = 'y.bin'\n"),
                 "sample 3: label 3, the set has 3 classes"));
  put(folder, "y.bin", test::bytes_of_values(std::vector<float>{0, 1, 2.5f, 3}));
  CHECK(contains(error_of(folder, "label_dtype = 'f32'\n" + kRaw + paths + "labels = 'y.bin'\n"), "of sample 2 is no integer"));
}

TEST_CASE("purposes fall back by rule and say so") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(4));
  const auto part = [](const char* name, const char* range) {
    return std::string("[split.") + name + "]\npaths = 'a.bin'\nrange = " + range + "\n";
  };
  const auto all =
      load(folder, kRaw + part("train", "[0, 1]") + part("calib", "[1, 2]") + part("val", "[2, 3]") + part("test", "[3, 4]"));
  REQUIRE(all);
  CHECK(all->for_calibration()->split->name() == "calib");
  CHECK(all->for_calibration()->note.empty());
  CHECK(all->for_choices()->split->name() == "val");
  CHECK(all->for_report()->split->name() == "test");
  const auto train = load(folder, kRaw + part("train", "[0, 1]"));
  REQUIRE(train);
  CHECK(train->for_calibration()->split->name() == "train");
  CHECK(train->for_calibration()->note == "no split 'calib', using 'train'");
  CHECK(train->for_choices()->split->name() == "train");
  CHECK(contains(train->for_report().error().message, "no split 'test' for reported figures (it has 'train')"));
  const auto test = load(folder, kRaw + part("test", "[0, 1]"));
  REQUIRE(test);
  CHECK_FALSE(test->for_calibration());
  CHECK_FALSE(test->for_choices());
}

TEST_CASE("paths take environment variables and their defaults") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(2));
  ::setenv("LATHE_TEST_FOLDER", folder.path().c_str(), 1);
  ::unsetenv("LATHE_TEST_NONE");
  const auto with = [](const std::string& path) { return kRaw + "[split.test]\npaths = '" + path + "'\n"; };
  CHECK(load(folder, with("${LATHE_TEST_FOLDER}/a.bin")));
  CHECK(load(folder, with("${LATHE_TEST_NONE:-.}/a.bin")));
  CHECK(contains(error_of(folder, with("${LATHE_TEST_NONE}/a.bin")), "environment variable 'LATHE_TEST_NONE' is not set"));
  CHECK(contains(error_of(folder, with("${LATHE_TEST_NONE")), "has '${' without '}'"));
  ::unsetenv("LATHE_TEST_FOLDER");
}

TEST_CASE("mistakes in a description name its line") {
  const TempFolder folder;
  put(folder, "a.bin", distinct(2));
  const std::string split = "[split.test]\npaths = 'a.bin'\n";
  const auto expect = [&](const std::string& toml, const std::string& message) {
    const std::string got = error_of(folder, toml);
    CHECK_MESSAGE(contains(got, message), got << " should hold: " << message);
  };
  expect("format = 'tar'\n" + split, "set.toml:1: unknown format 'tar' (known: image-folder, cifar-bin, idx, npz, raw, csv, wav-folder)");
  expect(split, "set.toml: key 'format' is missing");
  expect(kRaw, "set.toml: key 'split' is missing");
  expect(kRaw + "colour = 1\n" + split, "set.toml:4: unknown key 'colour'");
  expect(kRaw + "[split.dev]\npaths = 'a.bin'\n", "set.toml:4: unknown key 'dev'");
  expect(kRaw + split + "from = 3\n", "split 'test':6: unknown key 'from'");
  expect("format = 'raw'\ndtype = 'u9'\nshape = [4]\n" + split, "set.toml:2: unknown dtype 'u9' (known: f32,");
  expect("format = 'raw'\ndtype = 'u8'\nshape = [0]\n" + split, "set.toml:3: 'shape' must be between 1 and 2147483647, one is 0");
  expect(kRaw + "[preprocess]\nscale = '1/0'\n" + split, "set.toml:5: 'scale' must be a number or a fraction");
  expect(kRaw + "[preprocess]\nlayout = 'chw'\n" + split, "set.toml:5: unknown layout 'chw' (known: as-is, nchw, nhwc)");
  expect(kRaw + "[preprocess]\nresize = [4, 4]\n" + split, "'resize' is for format image-folder, this is raw");
  expect(kRaw + "[preprocess]\nrate = 8000\n" + split, "'rate' is for format wav-folder, this is raw");
  expect(kRaw + "[preprocess]\nmels = 40\n" + split, "set.toml:5: unknown key 'mels'");
  expect(kRaw + split + "range = [2, 2]\n", "'range' must be [first, end) with first < end");
  expect(kRaw + split + "fraction = [0.5, 1.5]\n", "'fraction' must be [from, to)");
  expect(kRaw + split + "range = [0, 1]\nfraction = [0, 1]\n", "'range' and 'fraction' exclude each other");
  expect("classes = ['a', 'a']\n" + kRaw + split, "class 'a' is there twice");
  expect("format = 'cifar-bin'\n" + split + "labels = 'y'\n", "format cifar-bin holds its own labels");
}

TEST_CASE("the check counts splits, classes, duplicates and values that are not finite") {
  const TempFolder folder;
  put(folder, "a.bin", test::bytes_of_values(std::vector<float>{1, 2, 1, 2, 5, NAN}));
  put(folder, "b.bin", test::bytes_of_values(std::vector<float>{1, 2, -7, 0}));
  put(folder, "ya.bin", {std::byte{0}, std::byte{0}, std::byte{2}});
  put(folder, "yb.bin", {std::byte{1}, std::byte{1}});
  REQUIRE(write_file_atomic(folder.file("set.toml"),
                            "format = 'raw'\ndtype = 'f32'\nshape = [2]\n[split.train]\npaths = 'a.bin'\nlabels = 'ya.bin'\n"
                            "[split.test]\npaths = 'b.bin'\nlabels = 'yb.bin'\n"));
  const auto report = dataset_check(folder.file("set.toml"));
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  REQUIRE(report->splits.size() == 2);
  CHECK(report->splits[0].samples == 3);
  CHECK(report->splits[0].per_class == std::vector<uint64_t>{2, 0, 1});
  CHECK(report->splits[0].duplicates == 1);
  CHECK(report->splits[1].per_class == std::vector<uint64_t>{0, 2, 0});
  REQUIRE(report->inputs.size() == 1);
  CHECK(report->inputs[0].low == -7);
  CHECK(report->inputs[0].high == 5);
  CHECK(report->inputs[0].mean == doctest::Approx((1 + 2 + 1 + 2 + 5 + 1 + 2 - 7) / 9.0));
  CHECK(report->inputs[0].non_finite == 1);
  REQUIRE(report->problems.size() == 2);
  CHECK(contains(report->problems[0], "split 'test' sample 0"));
  CHECK(contains(report->problems[1], "the input has 1 NaN or infinite values, first in file"));
}

}  // namespace
}  // namespace lathe

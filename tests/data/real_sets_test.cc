// The descriptions of tests/datasets and examples/fashion against the data that they describe.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "data/dataset.h"
#include "test_data.h"

namespace lathe {
namespace {

// Loads tests/datasets/<name>; an empty optional, said aloud, if its data is not on this machine.
std::optional<Dataset> load_real(const std::string& toml, const std::string& data) {
  std::error_code ec;
  const std::string path = data.starts_with('/') ? data : test::data_root() + "/" + data;
  if (!std::filesystem::exists(path, ec)) {
    test::say_skipped(data, "no data");
    return std::nullopt;
  }
  // The descriptions' default for LATHE_DATA is the one of test_data.h.
  auto set = Dataset::load(LATHE_SOURCE_ROOT "/" + toml);
  REQUIRE_MESSAGE(set, (set ? "" : set.error().message));
  return std::move(*set);
}

std::vector<float> sample(const DataSplit& split, uint64_t index, const Dataset& set) {
  std::vector<float> out(set.inputs()[0].bytes / sizeof(float));
  REQUIRE(split.fill(0, index, out.data()));
  return out;
}

std::vector<uint64_t> label_counts(const DataSplit& split, size_t classes) {
  std::vector<uint64_t> out(classes);
  for (uint64_t i = 0; i < split.size(); ++i) ++out[static_cast<size_t>(split.label(i))];
  return out;
}

TEST_CASE("the CIFAR-10 description gives 3,800, 1,200 and 2,000 normalised NCHW images") {
  const auto set = load_real("tests/datasets/cifar10.toml", "datasets/cifar10/test_2000.bin");
  if (!set) return;
  REQUIRE(set->splits().size() == 3);
  CHECK(set->split("train")->size() == 3800);
  CHECK(set->split("calib")->size() == 1200);
  const DataSplit& test = *set->split("test");
  CHECK(test.size() == 2000);
  CHECK(label_counts(test, 10) == std::vector<uint64_t>(10, 200));
  CHECK(set->inputs()[0].dims == std::vector<int64_t>{3, 32, 32});
  // The first test image is a bird (test_2000.names.txt).
  CHECK(set->classes()[static_cast<size_t>(test.label(0))] == "bird");
  for (const float v : sample(test, 0, *set)) {
    CHECK(v >= -2.2f);
    CHECK(v <= 2.7f);
  }
}

TEST_CASE("the MNIST description gives raw bytes as floats") {
  const auto set = load_real("tests/datasets/mnist.toml", "datasets/mnist/t10k-labels-idx1-ubyte.gz");
  if (!set) return;
  CHECK(set->split("train")->size() == 7800);
  CHECK(set->split("calib")->size() == 1200);
  CHECK(set->split("val")->size() == 1000);
  const DataSplit& test = *set->split("test");
  CHECK(test.size() == 10000);
  CHECK(set->inputs()[0].dims == std::vector<int64_t>{1, 28, 28});
  CHECK(test.label(0) == 7);
  CHECK(label_counts(test, 10)[1] == 1135);
  float high = 0;
  for (const float v : sample(test, 0, *set)) {
    CHECK(v == std::floor(v));
    high = std::max(high, v);
  }
  CHECK(high == 255);
}

TEST_CASE("the keyword description dequantizes features of 49 x 10 x 1") {
  const auto set = load_real("tests/datasets/kws01.toml", "datasets/kws01/labels_1000.u8");
  if (!set) return;
  CHECK(set->split("calib")->size() == 190);
  CHECK(set->split("test")->size() == 810);
  CHECK(set->inputs()[0].dims == std::vector<int64_t>{49, 10, 1});
  for (const float v : sample(*set->split("test"), 0, *set)) {
    const double q = v / 0.5847029 + 83;
    CHECK(std::abs(q - std::round(q)) < 1e-4);
  }
}

TEST_CASE("Debian's Fashion-MNIST has 60,000 and 10,000 images and the copy in examples is the same description") {
  const std::string data = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz";
  const auto set = load_real("tests/datasets/fashion_mnist.toml", data);
  const auto example = load_real("examples/fashion/fashion.toml", data);
  if (!set || !example) return;
  CHECK(set->split("train")->size() + set->split("calib")->size() + set->split("val")->size() == 60000);
  CHECK(set->split("calib")->size() == 1200);
  CHECK(label_counts(*set->split("test"), 10) == std::vector<uint64_t>(10, 1000));
  CHECK(preprocessing_hash(set->preprocessing()) == preprocessing_hash(example->preprocessing()));
  CHECK(example->split("test")->size() == 10000);
}

}  // namespace
}  // namespace lathe

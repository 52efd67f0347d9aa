// Whole data sets whose files or description are damaged: an error that names the file, or a set that can be read; never a crash.
#include <doctest/doctest.h>

#include "base/atomic_file.h"
#include "base/file.h"
#include "damage.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::Bytes;
using test::TempFolder;

// Loads the set and reads every sample of every split.
Result<void> read_all(const std::string& toml) {
  LATHE_TRY(const Dataset set, Dataset::load(toml));
  for (const DataSplit& split : set.splits())
    for (uint64_t i = 0; i < split.size(); ++i)
      for (size_t input = 0; input < set.inputs().size(); ++input) {
        std::vector<std::byte> out(set.inputs()[input].bytes);
        LATHE_CHECK_OK(split.fill(input, i, out.data()));
      }
  return {};
}

void damage(const TempFolder& folder, const std::string& file, uint32_t seed, int flips) {
  CAPTURE(file);
  const Bytes whole = read_file(folder.file(file)).value();
  const std::string toml = folder.file("set.toml");
  REQUIRE(read_all(toml));
  const auto use = [&](const Bytes& bad) {
    test::overwrite(folder.file(file), bad);
    const auto read = read_all(toml);
    if (!read) {
      CHECK(read.error().message.find(folder.path()) != std::string::npos);
      CHECK(read.error().message.find('\n') == std::string::npos);
    }
  };
  test::truncate_everywhere(whole, use);
  test::flip_bits(whole, seed, flips, use);
  test::overwrite(folder.file(file), whole);
}

TEST_CASE("a damaged description is an error with its path or still a data set") {
  const TempFolder folder;
  REQUIRE(write_file_atomic(folder.file("a.bin"), std::string("0123456789abcdef")));
  REQUIRE(write_file_atomic(
      folder.file("set.toml"),
      "format = 'raw'\ndtype = 's8'\nshape = [2, 2]\naxes = 'hw'\nclasses = ['a', 'b']\n[preprocess]\nscale = '1/255'\nmean = "
      "[0.5]\n"
      "layout = 'nchw'\n[split.train]\npaths = 'a.bin'\nrange = [0, 2]\n[split.test]\npaths = ['a.bin']\nfraction = [0.5, 1]\n"));
  // The two splits share samples, so the whole file is refused as well; what counts is that every variant ends.
  const Bytes whole = read_file(folder.file("set.toml")).value();
  const auto use = [&](const Bytes& bad) {
    const std::string_view text(reinterpret_cast<const char*>(bad.data()), bad.size());
    const auto description = parse_description(text, folder.file("set.toml"));
    if (description) (void)Dataset::load(*description);
    if (!description) CHECK(description.error().message.find('\n') == std::string::npos);
  };
  test::truncate_everywhere(whole, use);
  test::flip_bits(whole, 20240720, 4000, use);
}

TEST_CASE("damaged npz, csv and label files end in an error or in data") {
  const TempFolder folder;
  HostTensor x{DType::kF32, {3, 2}, test::bytes_of_values(std::vector<float>{1, 2, 3, 4, 5, 6})};
  REQUIRE(write_npz(folder.file("x.npz"), {{"x", x}}));
  REQUIRE(write_npy(folder.file("y.npy"), HostTensor{DType::kS64, {3}, test::bytes_of_values(std::vector<int64_t>{0, 1, 2})}));
  REQUIRE(write_file_atomic(folder.file("g.csv"), "user,hour\n1,2\n3,4\n5,6\n"));
  REQUIRE(write_file_atomic(folder.file("set.toml"),
                            "format = 'npz'\n[split.test]\npaths = 'x.npz'\nlabels = 'y.npy'\ngroups = 'g.csv'\n"));
  damage(folder, "x.npz", 20240721, 300);
  damage(folder, "y.npy", 20240722, 300);
  damage(folder, "g.csv", 20240723, 300);
}

TEST_CASE("damaged pictures end in an error or in data") {
  const TempFolder folder;
  for (const char* name : {"gradient.png", "gradient.bmp", "gradient.jpg"}) {
    const Bytes picture = read_file(std::string(LATHE_SOURCE_ROOT "/tests/data/golden/") + name).value();
    REQUIRE(write_file_atomic(folder.file(name), picture));
  }
  REQUIRE(write_file_atomic(folder.file("set.toml"),
                            "format = 'image-folder'\n[preprocess]\nresize = [4, 4]\n[split.test]\npaths = '.'\n"));
  damage(folder, "gradient.png", 20240724, 100);
  damage(folder, "gradient.bmp", 20240725, 100);
  damage(folder, "gradient.jpg", 20240726, 100);
}

}  // namespace
}  // namespace lathe

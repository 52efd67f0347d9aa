// Data sets: the TOML description, and everything read that a description can ask for from a folder of small files.
#include <filesystem>

#include "base/atomic_file.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temp_folder.h"

namespace lathe::fuzz {
namespace {

// Files for descriptions to name; made once.
const test::TempFolder& folder() {
  static const test::TempFolder folder;
  static const bool made = [] {
    HostTensor x{DType::kF32, {6, 2, 2}, std::vector<std::byte>(96)}, y{DType::kU8, {6}, std::vector<std::byte>(6)};
    for (size_t i = 0; i < 6; ++i) x.bytes[i * 16 + 3] = static_cast<std::byte>(0x3f + i % 2), x.bytes[i * 16] = static_cast<std::byte>(i);
    CHECKED(write_npz(folder.file("a.npz"), {{"x", x}, {"y", y}}).has_value());
    CHECKED(write_file_atomic(folder.file("a.bin"), std::string("0123456789abcdef")).has_value());
    CHECKED(write_file_atomic(folder.file("a.csv"), std::string("u,v,label\n1,2,0\n3,4,1\n5,6,0\n")).has_value());
    return true;
  }();
  (void)made;
  return folder;
}

}  // namespace

void run_dataset(Bytes bytes) {
  const auto description =
      parse_description({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, folder().file("set.toml"));
  if (!description) return;
  // A mutation must not send the reader about the file system.
  for (const SplitDescription& split : description->splits)
    for (const auto& paths : split.paths)
      for (const std::string& path : paths)
        if (std::filesystem::path(path).parent_path() != folder().path()) return;
  const auto set = Dataset::load(*description);
  if (!set) return;
  for (const DataSplit& split : set->splits())
    for (uint64_t i = 0; i < split.size(); ++i)
      for (size_t input = 0; input < set->inputs().size(); ++input) {
        if (set->inputs()[input].bytes > (1u << 20)) return;
        std::vector<std::byte> out(set->inputs()[input].bytes);
        (void)split.fill(input, i, out.data());
      }
}

std::vector<std::string> seeds_dataset() {
  return {
      "format = 'npz'\nlabel_key = 'y'\nclasses = ['a', 'b']\n[input.x]\nkey = 'x'\n[split.calib]\npaths = 'a.npz'\nrange = [0, 3]\n"
      "[split.test]\npaths = ['a.npz']\nrange = [3, 6]\n",
      "format = 'raw'\ndtype = 's8'\nshape = [2, 2]\naxes = 'hw'\nclasses = ['a', 'b']\n[preprocess]\nscale = '1/255'\n"
      "mean = [0.5]\nlayout = 'nchw'\n[split.train]\npaths = 'a.bin'\nfraction = [0, 0.5]\n[split.test]\npaths = 'a.bin'\n"
      "fraction = [0.5, 1]\n",
      "format = 'csv'\nlabel_column = 'label'\nclasses = ['n', 'y']\n[split.train]\npaths = 'a.csv'\n",
      "format = 'image-folder'\nseed = 3\n[preprocess]\nresize = 8\ncrop = 6\nmean = [1, 2, 3]\nstd = [1, 1, 1]\n[split.val]\n"
      "paths = '${NAME:-pictures}'\n",
  };
}

}  // namespace lathe::fuzz

// Tensors in files: npy, npz (deflated and stored), idx (plain and gzip), CSV.
#include "base/file.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/npy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temp_folder.h"

namespace lathe::fuzz {

void run_arrays(Bytes bytes) {
  if (const auto t = parse_npy(bytes, "x.npy")) CHECKED(t->bytes.size() == t->elems() * dtype_bytes(t->dtype));
  (void)parse_npz(bytes, "x.npz");
  (void)parse_idx(bytes, "x.idx");
  (void)parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "x.csv");
}

namespace {

HostTensor tensor(DType dtype, std::vector<int64_t> dims) {
  HostTensor t{dtype, std::move(dims), {}};
  t.bytes.resize(t.elems() * dtype_bytes(dtype));
  for (size_t i = 0; i < t.bytes.size(); ++i) t.bytes[i] = static_cast<std::byte>(i % 2);
  return t;
}

std::string text_of(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

std::vector<std::string> seeds_arrays() {
  std::vector<std::string> out;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kS64, DType::kU8, DType::kBool, DType::kF64}) {
    const auto bytes = npy_bytes(tensor(dtype, {2, 3}));
    CHECKED(bytes.has_value());
    out.push_back(text_of(*bytes));
  }
  const test::TempFolder folder;
  CHECKED(write_npz(folder.file("a.npz"), {{"x", tensor(DType::kF32, {2, 2})}, {"y", tensor(DType::kU8, {5})}}).has_value());
  const auto npz = read_file(folder.file("a.npz"));
  CHECKED(npz.has_value());
  out.push_back(text_of(*npz));
  // idx: two zero bytes, type 8 (unsigned byte), two axes, 2 x 3; and a table with quotes and a missing value.
  out.emplace_back("\0\0\x08\x02\0\0\0\x02\0\0\0\x03" "abcdef", 18);
  out.emplace_back("a,b,label\n1,2.5,0\n-3,\"4\",1\n1e9,,2\n");
  return out;
}

}  // namespace lathe::fuzz

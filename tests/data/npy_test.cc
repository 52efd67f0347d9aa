#include "data/npy.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/file.h"
#include "damage.h"
#include "data/zip.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;

const std::string kGolden = LATHE_SOURCE_ROOT "/tests/data/golden/";

// An npy file of version 1 with any header text.
Bytes npy_file(const std::string& header, const Bytes& data) {
  std::string head = "\x93NUMPY";
  head += '\1';
  head += '\0';
  head += static_cast<char>(header.size() & 255);
  head += static_cast<char>(header.size() >> 8);
  Bytes out = test::bytes_of(head + header);
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

std::string error_of(const std::string& header, size_t data_bytes) {
  const auto t = parse_npy(npy_file(header, Bytes(data_bytes)), "x.npy");
  return t ? "" : t.error().message;
}

TEST_CASE("NumPy's compressed archive reads as NumPy wrote it") {
  const auto arrays = read_npz(kGolden + "numpy_deflated.npz");
  REQUIRE(arrays);
  REQUIRE(arrays->size() == 4);
  const HostTensor& a = (*arrays)[0].tensor;
  CHECK((*arrays)[0].name == "a");
  CHECK(a.dims == std::vector<int64_t>{2, 3});
  for (size_t i = 0; i < 6; ++i) CHECK(a.as<float>()[i] == 0.5f * static_cast<float>(i));
  // Big-endian.
  const HostTensor& b = (*arrays)[1].tensor;
  CHECK(b.dtype == DType::kS16);
  CHECK(b.as<int16_t>()[1] == -2);
  CHECK(b.as<int16_t>()[2] == 300);
  // Fortran order comes out row-major.
  const HostTensor& f = (*arrays)[2].tensor;
  CHECK(f.dims == std::vector<int64_t>{2, 3, 4});
  for (int32_t i = 0; i < 24; ++i) CHECK(f.as<int32_t>()[static_cast<size_t>(i)] == i);
  CHECK((*arrays)[3].tensor.dtype == DType::kBool);
}

TEST_CASE("NumPy's half floats read and convert") {
  const auto arrays = read_npz(kGolden + "numpy_stored.npz");
  REQUIRE(arrays);
  const HostTensor f32 = to_f32((*arrays)[0].tensor);
  CHECK(f32.as<float>()[0] == 1.5f);
  CHECK(std::signbit(f32.as<float>()[1]));
  CHECK(f32.as<float>()[2] == 65504.0f);
  CHECK(f32.as<float>()[3] == doctest::Approx(5.96e-8).epsilon(0.01));
}

TEST_CASE("every dtype that npy knows goes through a file and an archive unchanged") {
  const test::TempFolder folder;
  std::vector<NamedTensor> all;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kS8, DType::kS16, DType::kS32, DType::kS64, DType::kU8,
                            DType::kU16, DType::kU32, DType::kU64, DType::kBool}) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {5}, {2, 3}, {2, 0, 3}, {1, 2, 3, 4}}) {
      HostTensor t{dtype, dims, {}};
      t.bytes.resize(t.elems() * dtype_bytes(dtype));
      for (size_t i = 0; i < t.bytes.size(); ++i) t.bytes[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : i * 7);
      REQUIRE(write_npy(folder.file("x.npy"), t));
      const auto back = read_npy(folder.file("x.npy"));
      REQUIRE(back);
      CHECK(back->dtype == dtype);
      CHECK(back->dims == dims);
      CHECK(back->bytes == t.bytes);
      CHECK(read_file(folder.file("x.npy"))->size() % 64 == t.bytes.size() % 64);
      all.push_back({"a" + std::to_string(all.size()), t});
    }
  }
  REQUIRE(write_npz(folder.file("x.npz"), all));
  const auto back = read_arrays(folder.file("x.npz"));
  REQUIRE(back);
  REQUIRE(back->size() == all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK((*back)[i].name == all[i].name);
    CHECK((*back)[i].tensor.bytes == all[i].tensor.bytes);
  }
  CHECK(npy_bytes(HostTensor{DType::kBF16, {}, Bytes(2)}).error().code == Code::kUnsupported);
}

TEST_CASE("npy headers that lie or that are not understood are named") {
  CHECK(error_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24) == "");
  CHECK(error_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 20) ==
        "x.npy: shape 2x3 of f32 needs 24 bytes, the file has 20");
  CHECK(contains(error_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0), "is too large"));
  CHECK(contains(error_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 0), "damaged shape"));
  CHECK(contains(error_of("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8), "dtype '<c8'"));
  CHECK(contains(error_of("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 4), "dtype '|O'"));
  CHECK(contains(error_of("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4), "structured"));
  CHECK(contains(error_of("{'descr': '<f4', 'shape': (1,)}", 4), "lacks"));
  CHECK(contains(error_of("{'descr': '|b1', 'fortran_order': False, 'shape': ()} x", 1), "after its dict"));
  const Bytes bad_bool = npy_file("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", {std::byte{2}});
  CHECK(contains(parse_npy(bad_bool, "x.npy").error().message, "a bool has the value 2"));
}

TEST_CASE("a truncated npy or npz is an error at every length") {
  const Bytes npy = npy_bytes(HostTensor{DType::kF32, {4}, Bytes(16)}).value();
  test::truncate_everywhere(npy, [](const Bytes& bad) {
    const auto t = parse_npy(bad, "x.npy");
    REQUIRE_FALSE(t);
    CHECK(t.error().message.rfind("x.npy: ", 0) == 0);
  });
  for (const char* name : {"numpy_deflated.npz", "numpy_stored.npz"}) {
    const Bytes npz = read_file(kGolden + name).value();
    test::truncate_everywhere(npz, [](const Bytes& bad) {
      const auto t = parse_npz(bad, "x.npz");
      REQUIRE_FALSE(t);
      CHECK(t.error().message.rfind("x.npz: ", 0) == 0);
    });
  }
}

TEST_CASE("flipped bits in an npz never give other data than NumPy wrote") {
  const Bytes npz = read_file(kGolden + "numpy_deflated.npz").value();
  const auto good = parse_npz(npz, "x.npz").value();
  int refused = 0;
  test::flip_bits(npz, 20240713, 4000, [&](const Bytes& bad) {
    const auto t = parse_npz(bad, "x.npz");
    if (!t) {
      ++refused;
      return;
    }
    // The checksums leave names, dates and other fields that carry no data.
    for (const NamedTensor& a : *t)
      for (const NamedTensor& g : good)
        if (a.name == g.name) CHECK(a.tensor.bytes == g.tensor.bytes);
  });
  CHECK(refused > 2000);
}

TEST_CASE("flipped bits in an npy header are refused or read, never worse") {
  const Bytes npy = npy_bytes(HostTensor{DType::kF32, {2, 2}, Bytes(16)}).value();
  test::flip_bits(npy, 20240714, 20000, [](const Bytes& bad) {
    const auto t = parse_npy(bad, "x.npy");
    if (t) CHECK(t->bytes.size() == 16);
  });
}

TEST_CASE("a zip entry that claims more or less than it holds is refused") {
  ZipWriter writer;
  REQUIRE(writer.add("a", test::bytes_of("hello")));
  Bytes zip = writer.finish();
  auto entries = parse_zip(zip);
  REQUIRE(entries);
  CHECK(read_entry((*entries)[0]).value() == test::bytes_of("hello"));
  ZipEntry lie = (*entries)[0];
  lie.crc ^= 1;
  CHECK(contains(read_entry(lie).error().message, "fails its checksum"));
  const Bytes golden = read_file(kGolden + "numpy_deflated.npz").value();
  lie = parse_zip(golden).value()[0];
  lie.size += 1;
  CHECK_FALSE(read_entry(lie));
  lie.size = 1;
  CHECK(contains(read_entry(lie).error().message, "goes on"));
}

TEST_CASE("two entries of one name in an archive are an error") {
  ZipWriter writer;
  REQUIRE(writer.add("a.npy", {}));
  REQUIRE(writer.add("a.npy", {}));
  CHECK(contains(parse_zip(writer.finish()).error().message, "'a.npy' is there twice"));
}

}  // namespace
}  // namespace lathe

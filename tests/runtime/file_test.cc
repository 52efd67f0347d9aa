#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "runtime/file.h"
#include "tests/runtime/program_builder.h"

using namespace lathe;

namespace {

struct TestFile {
  test::Aligned<uint8_t> data;
  size_t size = 0;
  FileHeader& header() { return *reinterpret_cast<FileHeader*>(data.get()); }
  FileSection& section(size_t i) { return reinterpret_cast<FileSection*>(data.get() + sizeof(FileHeader))[i]; }
  Status open(FileView* view) const { return file_open({data.get(), size}, view); }
};

// META of 10 bytes, WEIGHTS of 100, PLAN of 30 and one with tag 1.
TestFile make_file() {
  TestFile f;
  f.size = 64 * 9;
  f.data = test::aligned_bytes(f.size);
  f.header() = FileHeader{kFileMagic, kFileMajor, kFileMinor, f.size, 4, sizeof(FileSection), 0, {}};
  f.section(0) = {SectionKind::kMeta, 0, 3, 0, 10, 0};
  f.section(1) = {SectionKind::kWeights, 0, 4, 0, 100, 0};
  f.section(2) = {SectionKind::kPlan, kSectionRequired, 6, 0, 30, 0};
  f.section(3) = {SectionKind::kPlan, 0, 7, 1, 31, 0};
  return f;
}

}  // namespace

TEST_CASE("sections of a model file are found by kind and tag") {
  TestFile f = make_file();
  FileView view;
  REQUIRE(f.open(&view).ok());
  CHECK(view.section_count() == 4);
  CHECK(view.find(SectionKind::kWeights).data == f.data.get() + 256);
  CHECK(view.find(SectionKind::kWeights).size == 100);
  CHECK(view.find(SectionKind::kPlan).size == 30);
  CHECK(view.find(SectionKind::kPlan, 1).size == 31);
  CHECK(view.find(SectionKind::kPlan, 2).data == nullptr);
  CHECK(view.find(SectionKind::kCalib).data == nullptr);
}

TEST_CASE("an unknown optional section is skipped and an unknown required one is an error") {
  TestFile f = make_file();
  FileView view;
  f.section(0).kind = static_cast<SectionKind>(77);
  CHECK(f.open(&view).ok());
  f.section(0).flags = kSectionRequired;
  const Status s = f.open(&view);
  CHECK(s.code == Code::kUnsupported);
  CHECK(s.got == 77);
}

TEST_CASE("a newer major version is refused and a newer minor one is read") {
  TestFile f = make_file();
  FileView view;
  f.header().minor = 9;
  CHECK(f.open(&view).ok());
  f.header().major = 2;
  CHECK(f.open(&view).code == Code::kVersion);
}

TEST_CASE("every truncation of a model file is an error") {
  const TestFile f = make_file();
  for (size_t n = 0; n < f.size; ++n) {
    FileView view;
    CHECK(!file_open({f.data.get(), n}, &view).ok());
  }
}

TEST_CASE("weights need readable bytes behind them inside the file") {
  TestFile f = make_file();
  FileView view;
  f.section(1).offset_units = 7;
  f.section(1).bytes = 64;
  CHECK(f.open(&view).ok());
  f.section(1).bytes = 65;
  const Status s = f.open(&view);
  CHECK(s.code == Code::kCorrupt);
  CHECK(s.where == 1);
  CHECK(s.needed == kWeightsTail);
}

TEST_CASE("every changed byte of header and table ends in an error or in sections inside the file") {
  TestFile f = make_file();
  for (size_t i = 0; i < 64 + 4 * sizeof(FileSection); ++i)
    for (int v = 0; v < 256; ++v) {
      const uint8_t old = f.data[i];
      f.data[i] = static_cast<uint8_t>(v);
      FileView view;
      if (f.open(&view).ok())
        for (uint32_t s = 0; s < view.section_count(); ++s) {
          const Bytes b = view.bytes(view.section(s));
          CHECK(b.data >= f.data.get());
          CHECK(b.data + b.size <= f.data.get() + f.size);
        }
      f.data[i] = old;
    }
}

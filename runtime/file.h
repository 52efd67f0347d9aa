// The `.lathe` container: a header, a table of sections, and the sections on 64-byte units.
//
//   0   FileHeader (64 bytes)
//   64  section_count records of record_bytes each
//   ... sections, each starting on a multiple of 64 bytes, in any order, gaps zero
//
// Append only: a reader of the same major skips unknown optional sections and refuses unknown required ones. META, GRAPH, CALIB
// and TESTS are FlatBuffers for hosts (graph/file/); PLAN and WEIGHTS (runtime/program.h) are all that the core reads. A file may
// hold several PLAN sections, told apart by `tag`, the target they were lowered for. Checksums are written always and verified by
// `check` and install, not on load.
//
// file_open() checks the whole structure before anything is dereferenced. A FileView is an immutable view: share it between
// threads; it must not outlive the bytes.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "lathe/status.h"
#include "runtime/program.h"  // Bytes, kUnitBytes

namespace lathe {

// Numbers are written into files: append, never reuse.
enum class SectionKind : uint32_t { kMeta = 1, kGraph = 2, kWeights = 3, kPlan = 4, kCalib = 5, kTests = 6 };
// Lower-case name for reports; nullptr for an unknown kind.
constexpr const char* section_name(SectionKind kind) {
  switch (kind) {
    case SectionKind::kMeta: return "meta";
    case SectionKind::kGraph: return "graph";
    case SectionKind::kWeights: return "weights";
    case SectionKind::kPlan: return "plan";
    case SectionKind::kCalib: return "calib";
    case SectionKind::kTests: return "tests";
  }
  return nullptr;
}

inline constexpr uint32_t kFileMagic = 0x4854414c;  // "LATH"
inline constexpr uint16_t kFileMajor = 1, kFileMinor = 0;
inline constexpr uint32_t kMaxSections = 64;
// WEIGHTS is followed by this many readable bytes inside the file, because kernels may read past the last row.
inline constexpr uint32_t kWeightsTail = 64;

struct FileHeader {
  uint32_t magic;
  uint16_t major, minor;
  uint64_t file_bytes;  // whole file, so that a truncated one is known at once
  uint32_t section_count;
  uint32_t record_bytes;  // of one FileSection, at least sizeof(FileSection), a multiple of 8
  uint64_t checksum;      // XXH64 with seed 0 of this header, with 0 here, and the section table
  uint8_t reserved[32];   // 0
};
static_assert(sizeof(FileHeader) == 64);

inline constexpr uint32_t kSectionRequired = 1;

struct FileSection {
  SectionKind kind;
  uint32_t flags;         // kSectionRequired: a reader that does not know the kind refuses the file
  uint32_t offset_units;  // from the file's start, in 64-byte units
  uint32_t tag;           // PLAN: the target (ProgramHeader::target); 0 for the others
  uint64_t bytes;
  uint64_t checksum;      // XXH64 with seed 0 of the section's bytes
};
static_assert(sizeof(FileSection) == 32);

class FileView {
 public:
  uint32_t section_count() const { return header().section_count; }
  const FileHeader& header() const { return *reinterpret_cast<const FileHeader*>(file_.data); }
  const FileSection& section(uint32_t i) const {
    return *reinterpret_cast<const FileSection*>(file_.data + sizeof(FileHeader) + i * header().record_bytes);
  }
  Bytes bytes(const FileSection& s) const { return {file_.data + static_cast<uint64_t>(s.offset_units) * kUnitBytes, s.bytes}; }
  // The first section of `kind` with `tag`; data is null if there is none.
  Bytes find(SectionKind kind, uint32_t tag = 0) const;

 private:
  friend Status file_open(Bytes file, FileView* out);
  Bytes file_;
};

// Checks header, section table and every section's place, then gives the view. Requires: file.data on 64 bytes. Errors: kCorrupt
// (where: the section's index, or 0 for the header; needed, got: sizes in bytes, saturated), kVersion (a newer major),
// kUnsupported (an unknown required section; got: its kind).
Status file_open(Bytes file, FileView* out);

}  // namespace lathe

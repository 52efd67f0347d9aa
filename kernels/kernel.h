// The one list of kernels: every family's kernels.inc, in one table.
//
// A family folder holds `<family>.h` (contract: argument structs, packing), `kernels.inc` (its list), `reference.cc`, `pack.cc`
// and one file per ISA. A line of a list is
//   LATHE_KERNEL(Family, function, ISA macro or ALWAYS, needed IsaSet, storage)
// best first, the reference last; kernels/lists.inc includes them all. The ISA macro is one of kernels/meson.build's
// (LATHE_X86_AVX2 ...), 1 or 0 in every build, so that a line is always compiled and only its function may be missing. From the
// lists come the declarations, this table, selection, the tests, the benchmark and the firmware's table of used kernels. Thread-
// safe: constants.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// What a kernel computes; one function type per family, named <Family>Fn in the family's header.
enum class Family : uint8_t {
#define LATHE_FAMILY(name) k##name,
#include "kernels/families.inc"
#undef LATHE_FAMILY
};
const char* family_name(Family family);

struct Kernel {
  const char* name;  // the function's own name: family_types_tile_isa
  Family family;
  IsaSet needs;
  Storage storage;  // of 8-bit operands with quantization parameters; kS8 for families without any
  AnyFn fn;         // null: this build has no code for that ISA
};

// All kernels, families together, best first within a family.
struct KernelList {
  const Kernel* begin_;
  size_t size_;
  const Kernel* begin() const { return begin_; }
  const Kernel* end() const { return begin_ + size_; }
  size_t size() const { return size_; }
};
KernelList all_kernels();

// The ISAs that this build has code for. What a session may use is the machine's set cut down to this one.
IsaSet built_isa();

// The first kernel of `family` for `storage` whose needs `have` covers. Null only if the family does not support `storage`: a
// reference stands last. Its fn is null if this build has no code for an ISA in `have` (preparing a plan for another target).
const Kernel* select(Family family, Storage storage, IsaSet have);

}  // namespace lathe::kernels

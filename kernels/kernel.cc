#include "kernels/kernel.h"

#include "kernels/amax/amax.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/eltwise/eltwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm_pack/gemm_pack.h"
#include "kernels/gemm_sparse/gemm_sparse.h"
#include "kernels/gemm_tn/gemm_tn.h"
#include "kernels/layout/layout.h"
#include "kernels/norm/norm.h"
#include "kernels/pool/pool.h"
#include "kernels/softmax/softmax.h"
#include "kernels/winograd/winograd.h"

namespace lathe::kernels {
namespace {

// The function type behind a family's function pointer type.
template <class T> struct Pointee;
template <class R, class... A> struct Pointee<R (*)(A...)> { using Type = R(A...); };

}  // namespace

// The build defines each ISA macro as 1 if it compiled that ISA's archive, else as 0.
#define ALWAYS 1
#define LATHE_FN_0(fn) nullptr
#define LATHE_FN_1(fn) reinterpret_cast<AnyFn>(fn)
#define LATHE_FN_(have, fn) LATHE_FN_##have(fn)
#define LATHE_FN(have, fn) LATHE_FN_(have, fn)

#define LATHE_KERNEL(family, fn, isa, needs, storage) Pointee<family##Fn>::Type fn;
#include "kernels/lists.inc"
#undef LATHE_KERNEL

namespace {

const Kernel kKernels[] = {
#define LATHE_KERNEL(family, fn, isa, needs, storage) {#fn, Family::k##family, needs, storage, LATHE_FN(isa, fn)},
#include "kernels/lists.inc"
#undef LATHE_KERNEL
};

}  // namespace

const char* family_name(Family family) {
  switch (family) {
#define LATHE_FAMILY(name) \
  case Family::k##name: return #name;
#include "kernels/families.inc"
#undef LATHE_FAMILY
  }
  return nullptr;
}

KernelList all_kernels() { return {kKernels, sizeof(kKernels) / sizeof(kKernels[0])}; }

IsaSet built_isa() {
  IsaSet built = kIsaScalar;
  for (const Kernel& k : all_kernels()) {
    if (k.fn != nullptr) built |= k.needs;
  }
  return built;
}

const Kernel* select(Family family, Storage storage, IsaSet have) {
  for (const Kernel& k : all_kernels()) {
    if (k.family == family && k.storage == storage && covers(have, k.needs)) return &k;
  }
  return nullptr;
}

}  // namespace lathe::kernels

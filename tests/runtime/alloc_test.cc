// Counts every allocation of this process, by malloc as well as by operator new, while a session runs. A program of its own,
// because it replaces malloc; under AddressSanitizer, which does so too, the counters see operator new alone.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "runtime/host/cpu.h"
#include "runtime/host/session.h"
#include "tests/runtime/sample_cnn.h"

namespace {
std::atomic<uint64_t> allocations{0};
}

#if defined(__SANITIZE_ADDRESS__)
void* operator new(std::size_t n) {
  ++allocations;
  void* p = std::malloc(n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#else
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t n) {
  ++allocations;
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) {
  ++allocations;
  return __libc_calloc(n, m);
}
void* realloc(void* p, size_t n) {
  ++allocations;
  return __libc_realloc(p, n);
}
void* aligned_alloc(size_t align, size_t n) {
  ++allocations;
  return __libc_memalign(align, n);
}
int posix_memalign(void** p, size_t align, size_t n) {
  ++allocations;
  *p = __libc_memalign(align, n);
  return *p == nullptr ? ENOMEM : 0;
}
}
#endif

using namespace lathe;

TEST_CASE("a bound session runs without a single allocation") {
  for (const bool quantized : {false, true})
    for (const uint32_t threads : {1u, 2u}) {
      INFO((quantized ? "8-bit, " : "float, ") << threads << " threads");
      auto built = std::make_shared<test::BuiltProgram>(test::SampleCnn(quantized).build());
      auto loaded = std::make_shared<LoadedProgram>();
      REQUIRE(built->open(&loaded->program).ok());
      loaded->owner = built;
      auto session = HostSession::create(loaded, {*machine_isa(), threads});
      REQUIRE(session.has_value());
      const Shape shapes[] = {test::sample_shape(1), test::sample_shape(6)};
      const std::vector<float> x = test::sample_input(6);
      std::vector<float> y(60);
      const void* in = x.data();
      void* out = y.data();
      for (const Shape& s : shapes) REQUIRE((*session)->bind({&s, 1}).has_value());
      const uint64_t before = allocations;
      REQUIRE(before > 0);
      bool ok = true;
      for (int i = 0; i < 5; ++i) ok = ok && (*session)->run({&in, 1}, {&out, 1}).has_value();
      const uint64_t after = allocations;
      CHECK(ok);
      CHECK(after == before);
    }
}

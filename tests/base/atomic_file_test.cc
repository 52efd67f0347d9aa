#include "base/atomic_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/cancel.h"
#include "base/file.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::TempFolder;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("a committed file holds what was written and leaves nothing beside it") {
  const TempFolder folder;
  const std::string path = folder.file("out.bin");
  auto file = AtomicFile::create(path);
  REQUIRE(file);
  REQUIRE(file->write("hello "));
  REQUIRE(file->write("world"));
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(file->commit());
  CHECK(read_text_file(path).value() == "hello world");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file that is not committed keeps the old one and leaves no temporary file") {
  const TempFolder folder;
  const std::string path = folder.file("out.bin");
  REQUIRE(write_file_atomic(path, "old"));
  {
    auto file = AtomicFile::create(path);
    REQUIRE(file);
    REQUIRE(file->write("half of the new on"));
    CHECK(folder.entries() == 2);
  }
  CHECK(folder.entries() == 1);
  CHECK(read_text_file(path).value() == "old");
}

TEST_CASE("moving an open file moves the duty to remove its temporary file") {
  const TempFolder folder;
  {
    auto a = AtomicFile::create(folder.file("a"));
    auto b = AtomicFile::create(folder.file("b"));
    REQUIRE(a);
    REQUIRE(b);
    CHECK(folder.entries() == 2);
    *a = std::move(*b);
    CHECK(folder.entries() == 1);
    REQUIRE(a->commit());
  }
  CHECK(folder.entries() == 1);
  CHECK(std::filesystem::exists(folder.file("b")));
}

TEST_CASE("a full device is an error with the system's reason and the device stays") {
  const auto written = write_file_atomic("/dev/full", "x");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == Code::kIo);
  CHECK(written.error().message == "cannot write '/dev/full': no space left on device");
  struct stat info {};
  REQUIRE(::stat("/dev/full", &info) == 0);
  CHECK(S_ISCHR(info.st_mode));
}

TEST_CASE("a write that the disk refuses half way leaves neither target nor temporary file") {
  const TempFolder folder;
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, old.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto written = write_file_atomic(folder.file("big"), std::string(100'000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  REQUIRE_FALSE(written);
  CHECK(contains(written.error().message, "file too large"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("paths that cannot be written are named in the error") {
  const TempFolder folder;
  REQUIRE(write_file_atomic(folder.file("plain"), "x"));
  for (const std::string& path :
       {folder.file("no/such/folder/out"), folder.path(), folder.file("plain/below"), std::string(), folder.path() + "/"}) {
    const auto file = AtomicFile::create(path);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == Code::kIo);
    CHECK(contains(file.error().message, "cannot write '" + path + "': "));
  }
}

TEST_CASE("a link stays a link and its file gets the bytes and keeps its mode") {
  const TempFolder folder;
  REQUIRE(write_file_atomic(folder.file("real"), "old"));
  std::filesystem::permissions(folder.file("real"), std::filesystem::perms(0640));
  std::filesystem::create_symlink("real", folder.file("link"));
  REQUIRE(write_file_atomic(folder.file("link"), "new"));
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(read_text_file(folder.file("real")).value() == "new");
  CHECK((std::filesystem::status(folder.file("real")).permissions() & std::filesystem::perms::all) ==
        std::filesystem::perms(0640));
}

TEST_CASE("a cancelled write is kCancelled and leaves no file") {
  const TempFolder folder;
  install_interrupt_handler();
  {
    auto file = AtomicFile::create(folder.file("out"));
    REQUIRE(file);
    REQUIRE(file->write("some"));
    std::raise(SIGINT);
    const auto more = file->write("more");
    REQUIRE_FALSE(more);
    CHECK(more.error().code == Code::kCancelled);
    CHECK_FALSE(file->commit());
  }
  clear_cancel();
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  CHECK(folder.entries() == 0);
}

TEST_CASE("reading refuses folders, missing files and files over the limit") {
  const TempFolder folder;
  CHECK(read_file(folder.path()).error().message == "cannot read '" + folder.path() + "': is a directory");
  CHECK(read_file(folder.file("none")).error().message == "cannot read '" + folder.file("none") + "': no such file or directory");
  REQUIRE(write_file_atomic(folder.file("ten"), "0123456789"));
  CHECK(read_file(folder.file("ten"), 10).value().size() == 10);
  CHECK(contains(read_file(folder.file("ten"), 9).error().message, "it has 10 bytes or more, the limit is 9"));
  CHECK(contains(read_file("/dev/zero", 1000).error().message, "the limit is 1000"));
  // /proc files say that they have 0 bytes.
  CHECK(read_text_file("/proc/self/status").value().size() > 100);
}

}  // namespace
}  // namespace lathe

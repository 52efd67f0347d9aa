// The version of this library.
#pragma once

// Raised by hand with the project's version in meson.build; a test compares them.
#define LATHE_VERSION_MAJOR 0
#define LATHE_VERSION_MINOR 1
#define LATHE_VERSION_PATCH 0

// Numbers compare as versions do: 0.1.0 is 100.
#define LATHE_VERSION (LATHE_VERSION_MAJOR * 10000 + LATHE_VERSION_MINOR * 100 + LATHE_VERSION_PATCH)
#define LATHE_VERSION_TEXT "0.1.0"

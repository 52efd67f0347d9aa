// The same for Linux, where the example is an ordinary program.
#pragma once
#include <stdint.h>
#include <stdio.h>

int firmware_main();

namespace board {

inline void print(const char* text) { fputs(text, stdout); }

}  // namespace board

#include <board.h>

int main() { return firmware_main(); }

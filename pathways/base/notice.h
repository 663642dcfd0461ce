// A line for the user of a program, on a file such as the program's standard error. It never waits: where nobody reads, the line is dropped.
#pragma once

#include <string>

namespace pw {

void PrintNotice(int fd, const std::string& line);

}  // namespace pw

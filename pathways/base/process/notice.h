// PrintNotice: writes a line for the user of a program to a file such as standard error. It never blocks: it drops the line if
// the file cannot take it at once.
#pragma once

#include <string>

namespace pw {

void PrintNotice(int fd, const std::string& line);

}  // namespace pw

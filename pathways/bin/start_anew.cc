#include "pathways/bin/start_anew.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "pathways/base/log.h"

namespace pw {
namespace {

std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// Device runtimes open files without asking that they be closed then.
void CloseFilesThen() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > STDERR_FILENO) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  closedir(folder);
}

}  // namespace

void StartAnew() {
  std::vector<std::string> arguments = OwnArguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  CloseFilesThen();
  if (!arguments.empty()) execv("/proc/self/exe", pointers.data());
  PW_LOG_ERROR << "this program cannot start anew: " << std::strerror(errno);
  std::_Exit(1);
}

}  // namespace pw

#include "pathways/worker/execute/compiled_for.h"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace pw::worker {
namespace {

// XLA's own, those of its bridge in TensorFlow's libraries, libtpu's, and one by which CUDA's libraries change their results.
constexpr const char* kVariables[] = {"XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE"};

constexpr size_t kMostNoteBytes = 1 << 16;

template <class T>
bool ReadAt(std::ifstream& file, uint64_t offset, T* out) {
  return static_cast<bool>(file.seekg(static_cast<std::streamoff>(offset)).read(reinterpret_cast<char*>(out), sizeof(T)));
}

// Returns the build id in a segment of notes; empty: there is none.
std::string BuildIdIn(absl::string_view notes) {
  const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const size_t name = padded(note.n_namesz), text = padded(note.n_descsz);
    if (notes.size() < name || notes.size() - name < note.n_descsz) return "";
    if (note.n_type == NT_GNU_BUILD_ID && absl::StartsWith(notes, "GNU"))
      return absl::BytesToHexString(notes.substr(name, note.n_descsz));
    notes.remove_prefix(std::min(notes.size(), name + text));
  }
  return "";
}

std::string BuildId(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file || !ReadAt(file, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return "";
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(file, header.e_phoff + uint64_t{header.e_phentsize} * i, &segment)) return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNoteBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!file.seekg(static_cast<std::streamoff>(segment.p_offset)).read(notes.data(), static_cast<std::streamsize>(notes.size())))
      return "";
    if (std::string id = BuildIdIn(notes); !id.empty()) return id;
  }
  return "";
}

std::string Instructions() {
  std::string text;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!absl::StartsWith(line, "model name") && !absl::StartsWith(line, "flags") && !absl::StartsWith(line, "Features"))
      continue;
    absl::StrAppend(&text, line, "\n");
    if (!absl::StartsWith(line, "model name")) break;  // the first CPU speaks for all
  }
  return text;
}

}  // namespace

std::string BuildOf(const std::string& file) {
  if (std::string id = BuildId(file); !id.empty()) return id;
  std::error_code none;
  const auto size = std::filesystem::file_size(file, none);
  if (none) return "";
  return absl::StrCat(size, " bytes of ", std::filesystem::last_write_time(file, none).time_since_epoch().count());
}

std::string CompiledFor(const std::vector<std::string>& kinds, const std::string& plugin,
                        const std::vector<std::string>& device_options) {
  // Hosts with different numbers of equal devices share their programs.
  const bool equal = std::all_of(kinds.begin(), kinds.end(), [&](const std::string& kind) { return kind == kinds[0]; });
  std::string text = absl::StrCat(equal && !kinds.empty() ? kinds[0] : absl::StrJoin(kinds, ","), "\n", BuildOf(plugin), "\n",
                                  absl::StrJoin(device_options, ","), "\n");
  for (const char* name : kVariables) {
    const char* const value = std::getenv(name);
    absl::StrAppend(&text, name, "=", value == nullptr ? "" : value, "\n");
    // A value without a leading '-' names a file with flags.
    if (value != nullptr && value[0] != '-' && value[0] != '\0') absl::StrAppend(&text, BuildOf(value), "\n");
  }
  return text + Instructions();
}

}  // namespace pw::worker

#include "cli/support/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>

#include "cli/support/table.hpp"

namespace tutti::cli {
namespace {

winsize size_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    size.ws_row = 24, size.ws_col = 80;
  return size;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

Status Screen::is_possible() {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) return {};
  return fail(ErrorCode::invalid_argument, "a screen needs a terminal for its input and output");
}

Screen::Screen() {
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // Stopped or ended by these keys, we would leave the terminal as it is now.
  raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  // Only so that poll() returns.
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGWINCH, &action, nullptr);
  write_all("\x1b[?1049h\x1b[?25l");
}

Screen::~Screen() {
  write_all("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  std::signal(SIGWINCH, SIG_DFL);
}

std::size_t Screen::rows() const { return size_of_terminal().ws_row; }
std::size_t Screen::columns() const { return size_of_terminal().ws_col; }

void Screen::draw(const std::vector<std::string>& lines) {
  const std::size_t width = columns();
  const std::size_t height = std::min(rows(), lines.size());
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < height; ++i)
    text += clipped(lines[i], width) + (i + 1 < height ? "\x1b[K\r\n" : "\x1b[K");
  write_all(text + "\x1b[J");
}

Pressed Screen::wait_key(double seconds) {
  pollfd entries[] = {{interrupts_.descriptor(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  const int ready = ::poll(entries, 2, static_cast<int>(std::ceil(1000 * seconds)));
  if (!interrupts_.check()) return {Key::interrupted, 0};
  if (ready <= 0 || entries[1].revents == 0) return {};
  char bytes[16];
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  // The terminal is gone.
  if (count <= 0) return {Key::interrupted, 0};
  return parse_key({bytes, static_cast<std::size_t>(count)});
}

Pressed parse_key(std::string_view bytes) {
  static const std::map<std::string_view, Key> kKeys = {{"\x1b[A", Key::up},       {"\x1b[B", Key::down},
                                                        {"\x1bOA", Key::up},       {"\x1bOB", Key::down},
                                                        {"\x1b[5~", Key::page_up}, {"\x1b[6~", Key::page_down},
                                                        {"\x1b[H", Key::home},     {"\x1b[F", Key::end},
                                                        {"\x1b[1~", Key::home},    {"\x1b[4~", Key::end},
                                                        {"\x1bOH", Key::home},     {"\x1bOF", Key::end},
                                                        {" ", Key::page_down},     {"k", Key::up},
                                                        {"j", Key::down}};
  if (const auto found = kKeys.find(bytes); found != kKeys.end()) return {found->second, 0};
  if (bytes.empty() || bytes[0] == '\x1b') return {};
  return {Key::letter, bytes[0]};
}

}  // namespace tutti::cli

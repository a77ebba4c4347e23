#!/bin/sh
# Removes second copies of programs from Python packages, and lets Playwright find Debian's Chromium.
set -eu
sh /opt/trim.sh
cd "$(/opt/codebox/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
rm -f imageio_ffmpeg/binaries/ffmpeg-*
ln -sf /opt/codebox/bin/node playwright/driver/node

# Its list of browsers says in which folder and under which name it expects each.
PLAYWRIGHT_BROWSERS_PATH=/opt/full/browsers playwright install --dry-run chromium-headless-shell chromium \
  | sed -n 's/^ *Install location: *//p' | grep /chromium > /opt/full/folders
while read -r folder; do
  case $folder in
    *headless*) names="chrome-headless-shell-linux64/chrome-headless-shell chrome-linux/headless_shell" ;;
    *) names="chrome-linux64/chrome chrome-linux/chrome" ;;
  esac
  for name in $names; do
    mkdir -p "$folder/$(dirname "$name")"
    ln -s /usr/bin/chromium "$folder/$name"
  done
  touch "$folder/INSTALLATION_COMPLETE"
done < /opt/full/folders
rm /opt/full/folders

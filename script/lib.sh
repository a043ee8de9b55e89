# shellcheck shell=bash disable=SC2034
# script/lib.sh: what every script of this folder shares; it is sourced, never run.
#
# PostgreSQL refuses to run as root, while continuous integration and many fresh machines have nothing but root; and the
# checkout may lie where another user cannot read.  So everything here builds and runs as one unprivileged user, in a
# work folder that this user owns: a copy of the checkout, named by its content, with a server installation of its own
# beside it.  That installation is the machine's own PostgreSQL seen through copies and links, with our files added.
# Thus no script but script/setup writes outside the work folder and the folder it was given, two checkouts never
# disturb each other, and a running cluster keeps the files it was started with.
#
# After fl_prepare and fl_build these are set:
#   FL_USER     who builds and runs           FL_WORK   that user's work folder
#   FL_SOURCE   the copy that was built       FL_BIN    bin folder of the private installation
#   FL_CONFIG   pg_config of that installation
#
# Settings from the environment: PG_CONFIG (which server), CC, FLEETLOG_WORK (the work folder), FLEETLOG_JOBS.

set -euo pipefail

FL_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
FL_JOBS=${FLEETLOG_JOBS:-$(nproc 2>/dev/null || echo 2)}
FL_SUPPORTED="15 16 17 18"

# A caller's own connection settings must not lead our tools to another server.
unset PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD PGSERVICE PGOPTIONS PGDATA || true

fl_note()
{
    echo "$*" >&2
}

fl_die()
{
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Prints the head comment of the calling script as its help.
fl_help()
{
    sed -n '2,/^[^#]/{ /^#/!q; s/^# \{0,1\}//; p }' "$1"
}

fl_is_root()
{
    [ "$(id -u)" -eq 0 ]
}

# Runs a command as root: directly, through sudo without a question, or not at all with a message.
fl_as_root()
{
    if fl_is_root; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        fl_die "this step needs root; please run it yourself: $*"
    fi
}

# Picks the unprivileged user and makes the work folder.
fl_prepare()
{
    if fl_is_root; then
        if id postgres >/dev/null 2>&1; then
            FL_USER=postgres
        else
            FL_USER=fleetlog
            id fleetlog >/dev/null 2>&1 || {
                fl_note "Creating the system user fleetlog, since PostgreSQL does not run as root."
                useradd --system --user-group --no-create-home --home-dir /nonexistent fleetlog
            }
        fi
    else
        FL_USER=$(id -un)
    fi
    FL_WORK=${FLEETLOG_WORK:-/tmp/fleetlog-$FL_USER}
    fl_own_folder "$FL_WORK"
}

# Makes a folder that belongs to FL_USER, and refuses one that belongs to somebody else.
fl_own_folder()
{
    local folder=$1

    [ ! -L "$folder" ] || fl_die "$folder is a symbolic link; choose another folder"
    if [ ! -d "$folder" ]; then
        mkdir -p "$folder"
        if fl_is_root; then chown "$FL_USER": "$folder"; fi
    elif [ "$(stat -c %U "$folder")" != "$FL_USER" ]; then
        if fl_is_root && [ -z "$(ls -A "$folder")" ]; then
            chown "$FL_USER": "$folder"
        else
            fl_die "$folder belongs to $(stat -c %U "$folder"), but $FL_USER must own it"
        fi
    fi
    fl_as test -x "$folder" || fl_die "user $FL_USER cannot enter $folder: a folder above it is closed to that user"
}

# Runs a command as FL_USER from a folder which that user can read.
fl_as()
{
    if fl_is_root; then
        (cd / && exec runuser -u "$FL_USER" -- env HOME="$FL_WORK" "$@")
    else
        (cd / && exec "$@")
    fi
}

# Installs the Debian packages that are missing, and says which.
fl_packages()
{
    local package missing=()

    command -v dpkg-query >/dev/null || {
        fl_note "This is not Debian: please see that the counterparts of these packages are there: $*"
        return 0
    }
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    fl_note "Installing ${missing[*]}"
    fl_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2 ||
        { fl_as_root apt-get update -q >&2 &&
          fl_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2; } ||
        fl_die "could not install: ${missing[*]}"
}

# Finds pg_config: the one asked for, else Debian's 15, else the newest supported one, else the first in PATH.
fl_find_server()
{
    local version

    if [ -z "${PG_CONFIG:-}" ]; then
        for version in 15 18 17 16; do
            if [ -x "/usr/lib/postgresql/$version/bin/pg_config" ] && [ -x "/usr/lib/postgresql/$version/bin/postgres" ]; then
                PG_CONFIG=/usr/lib/postgresql/$version/bin/pg_config
                break
            fi
        done
    fi
    PG_CONFIG=${PG_CONFIG:-$(command -v pg_config || true)}
    [ -n "$PG_CONFIG" ] || fl_die "no pg_config found; run script/setup first, or set PG_CONFIG"
    version=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    case " $FL_SUPPORTED " in
        *" $version "*) ;;
        *) fl_die "$PG_CONFIG is of PostgreSQL $version; supported are $FL_SUPPORTED" ;;
    esac
}

# Names of the files that make up the checkout, each ended by a zero byte, in a fixed order.
fl_source_files()
{
    (
        cd "$FL_TOP"
        if git -c safe.directory='*' rev-parse --git-dir >/dev/null 2>&1; then
            git -c safe.directory='*' ls-files -z --cached --others --exclude-standard
        else
            find . -path ./.git -prune -o \( -type f -o -type l \) ! -name '*.o' ! -name '*.d' ! -name '*.so' -printf '%P\0'
        fi | LC_ALL=C sort -zu | while IFS= read -r -d '' name; do
            if [ -e "$name" ] || [ -L "$name" ]; then printf '%s\0' "$name"; fi
        done
    )
}

# Brings the checkout's files into a folder.  Only files that differ are written, so that objects built from the others
# stay valid when the folder was seeded from an earlier build.
fl_copy_source()
{
    local target=$1 list=$2 name

    while IFS= read -r -d '' name; do
        if [ -L "$FL_TOP/$name" ]; then
            mkdir -p "$(dirname "$target/$name")"
            ln -sfn "$(readlink "$FL_TOP/$name")" "$target/$name"
        elif ! cmp -s "$FL_TOP/$name" "$target/$name"; then
            mkdir -p "$(dirname "$target/$name")"
            cp --remove-destination "$FL_TOP/$name" "$target/$name"
        fi
        if [ -x "$FL_TOP/$name" ] && [ ! -L "$FL_TOP/$name" ]; then chmod +x "$target/$name"; fi
    done <"$list"

    # What the checkout no longer has must not be compiled or tested.
    (cd "$target" && find . \( -type f -o -type l \) ! -name '*.[od]' ! -name '*.so' -printf '%P\0') |
        LC_ALL=C sort -zu | LC_ALL=C comm -z -23 - "$list" | (cd "$target" && xargs -0 -r rm -f)
    (cd "$target" && find . -name '*.[od]' | while IFS= read -r name; do
        [ -e "${name%.[od]}.c" ] || rm -f "$name"
    done)
    find "$target" -mindepth 1 -type d -empty -delete
}

# Puts links to everything in a folder into another one, except to files of ours and to what is there already.
fl_link_entries()
{
    local from=$1 to=$2 entry

    mkdir -p "$to"
    for entry in "$from"/*; do
        case "$(basename "$entry")" in fleetlog*) continue ;; esac
        [ -e "$to/$(basename "$entry")" ] || ln -s "$entry" "$to/"
    done
}

# Makes a private installation below a folder.  PostgreSQL's programs find their files relative to where they lie, so
# copies of the programs and links to the rest, in the same relative places, are a whole installation.
fl_make_installation()
{
    local root=$1 bin share pkglib base dir

    bin=$("$PG_CONFIG" --bindir); share=$("$PG_CONFIG" --sharedir); pkglib=$("$PG_CONFIG" --pkglibdir)
    base=$bin
    for dir in "$share" "$pkglib" "$("$PG_CONFIG" --libdir)" "$("$PG_CONFIG" --includedir-server)"; do
        while [ "${dir#"$base"/}" = "$dir" ]; do base=$(dirname "$base"); done
    done
    base=${base%/}
    mkdir -p "$root${bin#"$base"}"
    cp -aL "$bin"/. "$root${bin#"$base"}/"
    fl_link_entries "$share/extension" "$root${share#"$base"}/extension"
    fl_link_entries "$share" "$root${share#"$base"}"
    fl_link_entries "$pkglib" "$root${pkglib#"$base"}"
    for dir in --libdir --includedir-server --pkgincludedir --includedir; do
        dir=$("$PG_CONFIG" $dir)
        if [ -d "$root${dir#"$base"}" ]; then
            fl_link_entries "$dir" "$root${dir#"$base"}"
        else
            mkdir -p "$(dirname "$root${dir#"$base"}")"
            ln -s "$dir" "$root${dir#"$base"}"
        fi
    done
    FL_BIN=$root${bin#"$base"}
}

# Builds the checkout as it is now, once for each content, and installs it into its private installation.
# Arguments go to make, and name another variant of the build.
fl_build()
{
    local list key dir

    fl_find_server
    list=$(mktemp); fl_source_files >"$list"
    key=$({ tar -C "$FL_TOP" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rw -cf - \
                --null --no-recursion -T "$list"
            "$PG_CONFIG" --bindir --version; echo "${CC:-}" "$@"; } | sha256sum | cut -c1-16)
    dir=$FL_WORK/build-$key
    fl_own_folder "$dir"
    exec 9>"$dir/lock"
    flock 9
    if [ ! -e "$dir/done" ]; then
        fl_note "Building fleetlog as user $FL_USER in $dir"
        if [ $# -eq 0 ] && [ ! -d "$dir/source" ] && [ -d "$FL_WORK/build-latest/source" ]; then
            cp -a "$FL_WORK/build-latest/source" "$dir/source"
        fi
        mkdir -p "$dir/source"
        fl_copy_source "$dir/source" "$list"
        rm -rf "$dir/server"
        fl_make_installation "$dir/server"
        if fl_is_root; then chown -R --no-dereference "$FL_USER": "$dir"; fi
        fl_as make -s -C "$dir/source" -j"$FL_JOBS" PG_CONFIG="$FL_BIN/pg_config" ${CC:+CC="$CC"} "$@" all install >"$dir/make.log" 2>&1 ||
            { cat "$dir/make.log" >&2; rm -f "$list"; fl_die "the build failed"; }
        touch "$dir/done"
        [ $# -gt 0 ] || ln -sfn "$(basename "$dir")" "$FL_WORK/build-latest"
        # Builds that nobody used for two days are not worth their space.
        find "$FL_WORK" -maxdepth 1 -name 'build-*' -type d -mtime +2 ! -path "$dir" -exec rm -rf {} + 2>/dev/null || true
    else
        FL_BIN=$(cat "$dir/bin")
        touch "$dir"
    fi
    echo "$FL_BIN" >"$dir/bin"
    flock -u 9
    exec 9>&-
    rm -f "$list"
    FL_SOURCE=$dir/source
    FL_CONFIG=$FL_BIN/pg_config
}

# Prints a TCP port of the loopback that nobody listens on; below the range from which outgoing connections are served.
# A file reserves it for two minutes, until whoever asked listens: front doors share their ports, so two servers that were
# told the same one would both start and take each other's clients.
fl_free_port()
{
    fl_own_folder "$FL_WORK/ports"
    # shellcheck disable=SC2016 # these are Perl's variables
    fl_as perl -MFcntl -MIO::Socket::INET -e '
        my ($folder) = @ARGV;
        for (1 .. 1000) {
            my $port = 20000 + int(rand(12000));
            my $file = "$folder/$port";
            unlink $file if -e $file && time - (stat _)[9] > 120;
            sysopen(my $f, $file, O_CREAT | O_EXCL | O_WRONLY) or next;
            if (IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Proto => "tcp", Listen => 1)) { print "$port\n"; exit 0 }
        }
        exit 1' "$FL_WORK/ports" || fl_die "found no free port"
}

# True when something accepts on a loopback port.
fl_accepts()
{
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Polls a condition ten times a second for so many seconds.
fl_wait()
{
    local seconds=$1 turn
    shift

    for ((turn = 0; turn < seconds * 10; turn++)); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    return 1
}

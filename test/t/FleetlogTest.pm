# FleetlogTest: servers for the TAP tests, over PostgreSQL's own PostgreSQL::Test::Cluster.
#
# A test makes a server with FleetlogTest->new('name', ...), which has the library preloaded, the three roles, the
# database "fleetlog", the extension and an MQTT listener on a port of its own.  Waiting is always polling a view or a
# packet with a timeout; nothing sleeps for a guessed time, and a wait that ends without its condition dies.
package FleetlogTest;

use strict;
use warnings;
use Carp qw(confess);
use IO::Socket::INET;
use Time::HiRes qw(time usleep);
use Test::More ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use FleetlogTest::Mqtt;

# Every wait for something that has to happen lasts this long before it gives up: a machine may be slow.  A test that waits
# shorter does so where it must not happen.
our $TIMEOUT = $PostgreSQL::Test::Utils::timeout_default || 180;
$FleetlogTest::Mqtt::TIMEOUT = $TIMEOUT;

# Options: shards, durability (of nothing: see fleet()), conf => text for postgresql.conf, no_extension => 1,
# no_start => 1, no_wait => 1 (do not wait for the MQTT port), no_checksums => 1 (not even where they are the default),
# install_path => an installation of another version, initdb => [more options of initdb].
sub new
{
    my ($class, $name, %opt) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name, defined $opt{install_path} ? (install_path => $opt{install_path}) : ());
    my @extra = ('-E', 'UTF8', '--locale=C.UTF-8', '-N', @{ $opt{initdb} // [] });
    my $self = bless { node => $node, mqtt => PostgreSQL::Test::Cluster::get_free_port() }, $class;

    # Server 18 was the first to sum pages without being asked, and has the option not to.
    push @extra, '--no-data-checksums' if $opt{no_checksums} && $node->pg_version >= 18;
    $node->init(allows_streaming => 'logical', extra => \@extra);
    # fsync may be off: these tests kill processes, not the operating system.
    $node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'fleetlog'
wal_level = logical
max_worker_processes = 40
max_wal_senders = 10
max_replication_slots = 10
max_connections = 60
autovacuum_naptime = 5s
log_line_prefix = '%m [%p] %b '
log_statement = none
fleetlog.database = 'fleetlog'
fleetlog.workers = 2
fleetlog.mqtt_listen = '127.0.0.1:$self->{mqtt}'
# Sessions of a test that hold a shard do so on purpose, however long the machine takes for what comes in between.
fleetlog.shard_hold_timeout = 0
fleetlog.shard_lock_timeout = '${TIMEOUT}s'
CONF
    # Newer minor releases let replication users name only the output plugins of this list.
    my $bin = $node->config_data('--bindir');
    $node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, test_decoding, fleetlog'")
      if `"$bin/postgres" --describe-config` =~ /^output_plugin_libraries\b/m;
    $node->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
    # What set_conf() says comes behind what the test began with.
    $node->append_conf('postgresql.conf', "include_if_exists 'test.conf'");
    return $self if $opt{no_start};
    $self->start_and_install(%opt);
    return $self;
}

# Starts a new server, makes roles, database and extension, and waits for its front doors.
sub start_and_install
{
    my ($self, %opt) = @_;

    $self->node->start;
    $self->make_roles;
    $self->node->safe_psql('postgres', "CREATE DATABASE fleetlog TEMPLATE template0 ENCODING 'UTF8'");
    return if $opt{no_extension};
    $self->node->safe_psql('fleetlog', 'CREATE EXTENSION fleetlog');
    $self->wait_for_mqtt unless $opt{no_wait};
    return;
}

sub make_roles
{
    my ($self) = @_;
    $self->node->safe_psql('postgres', <<'SQL');
CREATE ROLE fleetlog_admin NOLOGIN;
CREATE ROLE fleetlog_ingest NOLOGIN;
CREATE ROLE fleetlog_worker LOGIN CONNECTION LIMIT 0;
SQL
    return;
}

# A physical standby of this server, with its own MQTT port; the caller starts it.
sub new_standby
{
    my ($self, $name, %opt) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name);
    my $backup = "for_$name";

    $self->node->backup($backup);
    $node->init_from_backup($self->node, $backup, has_streaming => 1);
    my $standby = bless { node => $node, mqtt => PostgreSQL::Test::Cluster::get_free_port() }, ref $self;
    $node->append_conf('postgresql.conf', "fleetlog.mqtt_listen = '127.0.0.1:$standby->{mqtt}'\nwal_retrieve_retry_interval = '100ms'\n");
    $node->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
    return $standby;
}

# Waits until a standby has replayed all that this server has written up to now.
sub catch_up
{
    my ($self, $standby) = @_;
    my $lsn = $self->sql('SELECT pg_current_wal_insert_lsn()');

    $standby->wait_for("SELECT pg_last_wal_replay_lsn() >= '$lsn'", 't', "the standby to replay up to $lsn");
    return;
}

sub node { return $_[0]{node} }
sub port { return $_[0]{mqtt} }

# One statement (or several) in database fleetlog; dies on error.
sub sql
{
    my ($self, $sql) = @_;
    return $self->node->safe_psql('fleetlog', $sql);
}

# A statement at a server that may be down: exit code and output of psql, which may be gone before it was handed the text.
sub try_sql
{
    my ($self, $sql, $db) = @_;
    my ($rc, $out) = eval { $self->node->psql($db // 'fleetlog', $sql) };

    confess($@) if $@ && $@ !~ /Broken pipe/;
    return ($@ ? 2 : $rc, $out // '');
}

# The error text of a statement that must fail, with its SQLSTATE in front; undef when it does not fail.
sub sql_error
{
    my ($self, $sql) = @_;
    my ($rc, $out, $err) = $self->node->psql('fleetlog', "\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
    return if $rc == 0;
    return $err;
}

# A statement in the background over its own connection: returns a handle for finish_sql.
sub start_sql
{
    my ($self, $sql) = @_;
    my %h = (out => '', err => '');
    my $file = PostgreSQL::Test::Utils::tempdir() . '/background.sql';

    # A file, because text for standard input would be fed only while the test waits.
    open my $f, '>', $file or confess("$file: $!");
    print $f "$sql\n";
    close $f;
    $h{run} = IPC::Run::start(
        [ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $self->node->connstr('fleetlog'), '-f', $file ],
        '>', \$h{out}, '2>', \$h{err}, IPC::Run::timeout($TIMEOUT));
    return \%h;
}

# Waits for the end of a statement of start_sql: (exit code, output, errors).
sub finish_sql
{
    my ($self, $h) = @_;
    $h->{run}->finish;
    return ($h->{run}->result(0), $h->{out}, $h->{err});
}

# An interactive session whose transaction stays open between statements.
sub session
{
    my ($self, $db) = @_;
    return FleetlogTest::Session->new($self->node->connstr($db // 'fleetlog'));
}

# Polls until a query gives this answer (default t); dies after the timeout, telling the last answer.
sub wait_for
{
    my ($self, $query, $expected, $what) = @_;
    $expected //= 't';
    my $met;

    # A psql that a restarting server turns away may be gone before it was handed the query.
    wait_until(sub { $met = eval { $self->node->poll_query_until('fleetlog', $query, $expected) }; return if $@ =~ /Broken pipe/; confess($@) if $@; 1 },
        $what // $query);
    confess('gave up waiting for ' . ($what // $query)) unless $met;
    return;
}

# Polls the server's log, from a position in it, for a line that may be written a moment after what it tells of.
sub wait_for_log
{
    my ($self, $pattern, $from, $what) = @_;
    wait_until(sub { PostgreSQL::Test::Utils::slurp_file($self->node->logfile, $from // 0) =~ $pattern }, $what // "$pattern in the log");
    return 1;
}

# A query on a standby that goes on replaying: one that is cancelled for that is asked again.
sub sql_on_standby
{
    my ($self, $sql) = @_;
    my $answer;

    wait_until(sub { $answer = eval { $self->sql($sql) }; return 1 if defined $answer; confess($@) unless $@ =~ /conflict with recovery/; 0 }, "an answer of the standby to $sql");
    return $answer;
}

# Polls a Perl condition.
sub wait_until
{
    my ($condition, $what, $seconds) = @_;
    my $end = time + ($seconds // $TIMEOUT);

    until ($condition->())
    {
        confess("gave up waiting for $what") if time > $end;
        usleep(20_000);
    }
    return;
}

# What a program is to read from its standard input: the end to give it, and the one that keeps it from an end of file
# for as long as the caller holds it.  Unlike a scalar's bytes these are there before the program is, which may end
# without reading them.
sub input
{
    my ($bytes) = @_;
    pipe my $read, my $write or confess("pipe: $!");
    confess('too much for a pipe') unless (syswrite($write, $bytes) // -1) == length $bytes;
    return ($read, $write);
}

# How often the sessions that wait in poll, take or watch have gone to sleep, by the kernel's count.
sub waiter_sleeps
{
    my ($self) = @_;
    return (sleeps(split /\n/, $self->sql('SELECT pid FROM fleetlog.stat_waiter')))[0];
}

# The same of some processes, and how many of them are awake: at work, or on their way to sleep.
sub sleeps
{
    my ($sum, $awake) = (0, 0);
    for my $pid (@_)
    {
        open my $f, '<', "/proc/$pid/status" or die "no status of process $pid: $!";
        while (<$f>)
        {
            $sum += $1 if /^voluntary_ctxt_switches:\s+(\d+)/;
            $awake++ if /^State:\s+[^S]/;
        }
        close $f;
    }
    return ($sum, $awake);
}

# Waits until the sessions that wait are asleep, for good as far as anybody can tell: a process that shall go to sleep may have
# to wait for a CPU for long before it can do so.
sub wait_asleep
{
    my ($self, @pids) = @_;
    my $last = -1;

    @pids = split /\n/, $self->sql('SELECT pid FROM fleetlog.stat_waiter') unless @pids;
    wait_until(
        sub {
            my ($sum, $awake) = sleeps(@pids);
            my $same = !$awake && $sum == $last;

            $last = $awake ? -1 : $sum;
            usleep(200_000) unless $same;
            return $same;
        },
        'the sessions to be asleep');
    return;
}

sub accepts
{
    my ($self) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{mqtt}, Proto => 'tcp', Timeout => 2);
    return 0 unless $s;
    close $s;
    return 1;
}

sub wait_for_mqtt
{
    my ($self) = @_;
    wait_until(sub { $self->accepts }, 'the MQTT port to accept');
    return;
}

# Settings that a test changes while the server runs; an empty hash clears them.  Reloads when the server is up.
sub set_conf
{
    my ($self, %conf) = @_;
    my $path = $self->node->data_dir . '/test.conf';

    open my $f, '>', "$path.new" or confess("$path.new: $!");
    for my $name (sort keys %conf)
    {
        (my $value = $conf{$name}) =~ s/'/''/g;
        print $f "$name = '$value'\n";
    }
    close $f;
    rename "$path.new", $path or confess("$path: $!");
    $self->{conf} = {%conf};
    $self->node->reload if defined $self->node->{_pid};
    return;
}

# Processes that reach one of these points wait there, until the list no longer has it.
sub stop_points
{
    my ($self, @names) = @_;
    $self->set_conf(%{ $self->{conf} // {} }, 'fleetlog.stop_points' => join(',', @names));
    $self->wait_for("SHOW fleetlog.stop_points", join(',', @names), 'the reload of the stop points');
    return;
}

sub wait_stopped_at
{
    my ($self, $name) = @_;
    $self->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE stop_point = '$name'", 't', "a process to stop at $name");
    return;
}

# Kills the postmaster the hard way and starts again, as an operator would after a power cut.
sub kill9_and_start
{
    my ($self, %opt) = @_;
    $self->kill9;
    $self->start_after_crash(%opt);
    return;
}

sub kill9
{
    my ($self) = @_;
    my $pid = $self->node->{_pid};

    $self->node->kill9;
    wait_until(sub { !kill 0, $pid }, 'the killed postmaster to be gone') if defined $pid;
    return;
}

# A killed process may be seen for a moment longer.
sub wait_until_gone
{
    my ($self, $pid) = @_;
    wait_until(sub { !kill 0, $pid }, "process $pid to be gone");
    return;
}

# Children of a killed postmaster leave when they notice; until then the new one is refused.
sub start_after_crash
{
    my ($self, %opt) = @_;
    my $node = $self->node;

    wait_until(
        sub {
            # A refused start takes the dying server's pid for that of a running one.
            if (defined $node->{_pid})
            {
                return 0 if kill 0, $node->{_pid};
                $node->{_pid} = undef;
            }
            return $node->start(fail_ok => 1);
        },
        'the server to start after kill -9', 60);
    $self->wait_for_mqtt unless $opt{no_wait};
    return;
}

# The usual cast: stream telemetry, tenant acme with prefix acme/, a mount of that prefix, devices d1 .. dN with
# password "pw-<id>".  Options: shards, devices, durability, stream, compression.
sub fleet
{
    my ($self, %opt) = @_;
    my $stream = $opt{stream} // 'telemetry';
    my $shards = $opt{shards} // 1;
    my $durability = $opt{durability} // 'local';
    my $compression = $opt{compression} // 'lz4';
    my $devices = $opt{devices} // 2;

    $self->sql(<<SQL);
SELECT fleetlog.create_stream('$stream', shards => $shards, durability => '$durability', compression => '$compression');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', '$stream');
SELECT fleetlog.create_device('d' || n, 'acme', password => 'pw-d' || n) FROM generate_series(1, $devices) n;
SQL
    return;
}

# A client connected as a device of fleet(); dies when the server refuses.  Options go to FleetlogTest::Mqtt::login.
sub device
{
    my ($self, $id, %opt) = @_;
    my $client = FleetlogTest::Mqtt->open($self->{mqtt}, version => $opt{version} // 5);
    my $ack = $client->login(client_id => $opt{client_id} // $id, user => "acme/$id", password => "pw-$id", %opt);

    confess("device $id was refused: " . ($ack ? "reason $ack->{reason}" : 'closed')) unless $ack && $ack->{reason} == 0;
    return $client;
}

# A raw connection that has said nothing yet.
sub raw
{
    my ($self, %opt) = @_;
    return FleetlogTest::Mqtt->open($self->{mqtt}, %opt);
}

# Dense offsets from 0, time that never steps back, in every shard: '' when so, else what is wrong.
sub density_faults
{
    my ($self, $stream) = @_;
    $stream //= 'telemetry';
    return $self->sql(<<SQL);
SELECT 'shard ' || shard || ': ' || count(*) || ' rows, offsets ' || min(log_offset) || ' to ' || max(log_offset)
  FROM $stream GROUP BY shard HAVING count(*) <> max(log_offset) + 1 OR min(log_offset) <> 0 OR count(DISTINCT log_offset) <> count(*);
SELECT 'ts steps back at ' || shard || '/' || log_offset
  FROM (SELECT shard, log_offset, ts < lag(ts) OVER (PARTITION BY shard ORDER BY log_offset) AS back FROM $stream) s WHERE back LIMIT 3;
SQL
}

# Which of these payloads the stream does not have (text payloads).
sub missing_payloads
{
    my ($self, $stream, @payloads) = @_;
    my %have = map { $_ => 1 } split /\n/, $self->sql("SELECT fleetlog.text(payload) FROM $stream WHERE payload IS NOT NULL");
    return grep { !$have{$_} } @payloads;
}

# What a whole log file says about crashes that no test asked for.
sub crashes
{
    my ($self) = @_;
    my $log = PostgreSQL::Test::Utils::slurp_file($self->node->logfile);
    return join "\n", grep { /terminated by signal (?!9\b)|TRAP:|PANIC:|could not load library/ } split /\n/, $log;
}

package FleetlogTest::Session;

# A psql that is kept open, so that transactions can span steps of the test.

use strict;
use warnings;
use Carp qw(confess);
use IPC::Run;

sub new
{
    my ($class, $connstr) = @_;
    my $self = bless { in => '', out => '', err => '', n => 0 }, $class;
    $self->{timer} = IPC::Run::timer($FleetlogTest::TIMEOUT);
    $self->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $connstr ], '<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err}, $self->{timer});
    return $self;
}

# Runs statements and returns their output; errors are kept in ->error.
sub query
{
    my ($self, $sql) = @_;
    my $mark = 'end-of-' . ++$self->{n};

    $self->send($sql, $mark);
    return $self->take($mark);
}

# The two halves of query, for a statement that is expected to wait.
sub send
{
    my ($self, $sql, $mark) = @_;
    $self->{out} = '';
    $self->{err} = '';
    $self->{in} .= "$sql\n;\\echo $mark\n";
    $self->{timer}->start($FleetlogTest::TIMEOUT);
    $self->{run}->pump_nb;
    return;
}

sub take
{
    my ($self, $mark) = @_;
    until ($self->{out} =~ /^\Q$mark\E\n/m)
    {
        last unless $self->{run}->pumpable;
        $self->{run}->pump;
    }
    (my $out = $self->{out}) =~ s/^\Q$mark\E\n.*//ms;
    chomp $out;
    return $out;
}

sub error { return $_[0]{err} }

sub quit
{
    my ($self) = @_;
    $self->{in} .= "\\q\n";
    eval { $self->{run}->finish; };
    return;
}

1;

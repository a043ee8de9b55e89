# X2: what is missing is said once, with its remedy; work begins by itself when it is there; and the library is
# harmless where it has nothing to do.
use strict;
use warnings;
use Test::More;
use PostgreSQL::Test::Utils;
use FleetlogTest;

my $s = FleetlogTest->new('place', no_wait => 1, conf => "fleetlog.worker_retry = 50ms\nfleetlog.mqtt_listen = ''\n");
my $node = $s->node;

sub log_since { my ($at) = @_; return slurp_file($node->logfile, $at); }
sub lines { my ($at, $pattern) = @_; return scalar(grep { /$pattern/ } split /\n/, log_since($at)); }
sub launcher_says
{
    my ($pattern, $what) = @_;
    $s->wait_for("SELECT state ~ '$pattern' FROM fleetlog.stat_worker WHERE kind = 'launcher'", 't', $what);
    return;
}
sub all_run { $s->wait_for("SELECT count(*) = 4 FROM fleetlog.stat_worker WHERE state = 'running'"); return; }

all_run();
is($s->sql("SELECT string_agg(kind, ' ' ORDER BY kind) FROM fleetlog.stat_worker"), 'confirmer flusher keeper launcher',
    'without a listener only those run that a stream in SQL needs');

# Another database by reload, then one without the extension: quiet but for one line.
$node->safe_psql('postgres', "CREATE DATABASE empty TEMPLATE template0 ENCODING 'UTF8'");
my $at = -s $node->logfile;
$s->set_conf('fleetlog.database' => 'empty');
launcher_says('does not exist in database "empty"', 'the launcher to miss the extension');
$s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE datname = 'fleetlog' AND backend_type LIKE 'fleetlog%'", '0',
    'the workers to have left the database that is no longer theirs');
$s->wait_for_log(qr/fleetlog is dormant.*\n.*HINT:.*CREATE EXTENSION fleetlog/, $at, 'the line that says so');
$s->sql('SELECT pg_sleep(1)');    # several looks at 50, 100, 200, 400 ms
is(lines($at, qr/fleetlog is dormant/), 1, 'one line in the log, however often it looks');
$node->safe_psql('postgres', 'DROP DATABASE empty');
launcher_says('database "empty" does not exist', 'the launcher to miss the database');
$s->wait_for_log(qr/fleetlog is dormant: database "empty"/, $at, 'the line about the missing database');
is(lines($at, qr/fleetlog is dormant: database "empty"/), 1, 'a missing database is one line too');
$s->set_conf('fleetlog.database' => '');
launcher_says('fleetlog.database is empty', 'no database wanted');
$s->set_conf();
all_run();
pass('back at work after the reload');

# The role.
$s->sql('ALTER ROLE fleetlog_worker NOLOGIN');
$at = -s $node->logfile;
$node->restart;
launcher_says('role "fleetlog_worker"', 'the launcher to miss the role');
ok($s->wait_for_log(qr/HINT:.*CREATE ROLE fleetlog_worker/, $at), 'a missing role comes with the statement that makes it');
$s->sql('ALTER ROLE fleetlog_worker LOGIN');
all_run();
pass('back at work when the role may log in');

# The extension goes and comes.
$s->sql('DROP EXTENSION fleetlog CASCADE');
$node->poll_query_until('fleetlog', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type LIKE 'fleetlog%'");
pass('DROP EXTENSION: all but the launcher leave by themselves');
$s->sql('CREATE EXTENSION fleetlog');
all_run();
pass('CREATE EXTENSION: they are back');

# The disk reserve.
$at = -s $node->logfile;
$s->set_conf('fleetlog.disk_reserve' => '2000TB');
$s->wait_for('SELECT disk_reserve_reached FROM fleetlog.stat_server', 't', 'the disk reserve');
ok($s->wait_for_log(qr/publishes are refused.*\n.*HINT/, $at), 'the disk reserve is told with a hint');
$s->set_conf();
$s->wait_for('SELECT NOT disk_reserve_reached FROM fleetlog.stat_server', 't', 'enough space again');

# Too few worker slots: nothing half.
$at = -s $node->logfile;
$node->append_conf('postgresql.conf', "max_worker_processes = 3\nfleetlog.worker_retry = 50ms\n");
$node->restart;
ok($s->wait_for_log(qr/max_worker_processes is 3, at least 5 are needed.*\n.*HINT:.*Set max_worker_processes to 5/, $at, 'the message about worker slots'),
    'too few slots: the hint has the number');
is($s->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE kind <> 'launcher'"), '0', 'and nobody was started');
$node->append_conf('postgresql.conf', "max_worker_processes = 40\n");

# A misspelt setting is an error at start of the session, not silence.
$node->restart;
like($s->sql_error("SET fleetlog.lingre = '5ms'"), qr/invalid configuration parameter name/, 'names under fleetlog. are ours');

# The database goes by force while they are connected.
all_run();
$at = -s $node->logfile;
$node->safe_psql('postgres', 'DROP DATABASE fleetlog WITH (FORCE)');
FleetlogTest::wait_until(sub { log_since($at) =~ /fleetlog is dormant: database "fleetlog" does not exist/ }, 'the launcher to notice');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type LIKE 'fleetlog%'"), 'DROP DATABASE ... FORCE: dormant');
$node->safe_psql('postgres', "CREATE DATABASE fleetlog TEMPLATE template0 ENCODING 'UTF8'");
$s->sql('CREATE EXTENSION fleetlog');
all_run();
pass('made anew, they are back');

# pg_upgrade starts the server in a mode in which nobody may write by himself.
$node->stop;
my @binary_upgrade = ('pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, '-o', '-b');
system_or_bail(@binary_upgrade, 'start');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'fleetlog%'"), '0', 'no worker during pg_upgrade');
system_or_bail('pg_ctl', '-w', '-D', $node->data_dir, '-m', 'fast', 'stop');

# Without preloading, as pg_upgrade loads it.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->start;
$s->sql("LOAD 'fleetlog'");
pass('the library can be loaded without preloading');
my $error = $s->sql_error("SELECT fleetlog.pause()");
like($error, qr/55000.*shared_preload_libraries/s, 'what needs shared memory says what to do');
like($error, qr/HINT:/, 'with a hint');
is($s->crashes, '', 'no crash');
$node->stop;
done_testing();

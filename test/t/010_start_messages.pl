# X2: each missing piece gives one message with a hint; workers come by themselves once the piece is there, and leave
# nothing behind when the extension goes.
use strict;
use warnings;
use IO::Socket::INET;
use Test::More;
use PostgreSQL::Test::Utils;
use FleetlogTest;

sub log_since { my ($s, $at) = @_; return slurp_file($s->node->logfile, $at); }

sub wait_log
{
    my ($s, $pattern, $at, $what) = @_;
    FleetlogTest::wait_until(sub { log_since($s, $at) =~ $pattern }, $what);
    return;
}

my $s = FleetlogTest->new('start', no_start => 1);
my $node = $s->node;
my $conf = "\nshared_preload_libraries = ''\n";

# Without preload.
$node->append_conf('postgresql.conf', $conf);
$node->start;
$node->safe_psql('postgres', "CREATE DATABASE fleetlog TEMPLATE template0 ENCODING 'UTF8'");
my $error = $s->sql_error('CREATE EXTENSION fleetlog');
like($error, qr/shared_preload_libraries/, 'not preloaded: the message names the setting');
like($error, qr/HINT:/, 'not preloaded: there is a hint');
$node->append_conf('postgresql.conf', "\nshared_preload_libraries = 'fleetlog'\n");
$node->restart;

# Without the roles.
$error = $s->sql_error('CREATE EXTENSION fleetlog');
like($error, qr/fleetlog_(admin|ingest|worker)/, 'no roles: the message names one');
like($error, qr/HINT:.*CREATE ROLE/s, 'no roles: the hint has the statements');
$s->make_roles;

# In a database of another encoding.
$node->safe_psql('postgres', "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'");
my ($rc, $out, $err) = $node->psql('ascii', "\\set VERBOSITY verbose\nCREATE EXTENSION fleetlog");
like($err, qr/0A000.*UTF8/s, 'another encoding is refused');
$node->safe_psql('postgres', 'DROP DATABASE ascii');

# With all of it, and without a restart.
ok(!$s->accepts, 'no listener before the extension is there');
$s->sql('CREATE EXTENSION fleetlog');
$s->wait_for_mqtt;
pass('the front doors come by themselves');
$s->wait_for("SELECT count(*) >= 5 FROM fleetlog.stat_worker WHERE pid IS NOT NULL");
# Of the transactions that are open at this moment none stays so.
my $open = $s->sql("SELECT string_agg(format('(%s, %L::timestamptz)', pid, xact_start), ', ') FROM pg_stat_activity WHERE backend_type LIKE 'fleetlog%' AND xact_start IS NOT NULL");
$s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE (pid, xact_start) IN ($open)", '0', 'the transactions of the workers to end') if $open ne '';
pass('no worker sits in an open transaction');

# pause() lets the database be renamed, resume() brings everybody back.
$s->sql('SELECT fleetlog.pause()');
FleetlogTest::wait_until(
    sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datname = 'fleetlog'") eq '0' },
    'the workers to leave the database');
$node->safe_psql('postgres', 'ALTER DATABASE fleetlog RENAME TO other; ALTER DATABASE other RENAME TO fleetlog');
FleetlogTest::wait_until(sub { !$s->accepts }, 'the listeners to be closed');
pass('paused: no listener');
$s->sql('SELECT fleetlog.resume()');
$s->wait_for_mqtt;
pass('resumed');

# DROP EXTENSION while the workers are at work.
$s->fleet;
my $device = $s->device('d1');
is($device->publish_acked('acme/d1/t', 'x'), 0, 'a device is served');
$error = $s->sql_error('DROP EXTENSION fleetlog');
like($error, qr/2BP01|depend/, 'DROP EXTENSION does not take streams along silently');
$s->sql("SET lock_timeout = '120s'; SET client_min_messages = error; DROP EXTENSION fleetlog CASCADE");
is($s->sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'fleetlog'"), '0', 'the schema is gone');
is($s->sql("SELECT count(*) FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam WHERE c.relname LIKE 'telemetry%' OR a.amname LIKE 'fleetlog%'"),
    '0', 'no table of ours is left');
is($s->sql("SELECT count(*) FROM pg_proc WHERE probin LIKE '%fleetlog%'"), '0', 'no function of ours is left');
is($s->sql("SELECT count(*) FROM pg_event_trigger"), '0', 'no event trigger of ours is left');
FleetlogTest::wait_until(sub { !$s->accepts }, 'the listeners to close');
$s->sql('CREATE EXTENSION fleetlog');
$s->wait_for_mqtt;
$s->fleet;
is($s->device('d1')->publish_acked('acme/d1/t', 'x'), 0, 'installed again, a device is served again');

# The listener's port is taken by somebody else.
my $at = -s $node->logfile;
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Proto => 'tcp', Listen => 5) or die "port $port: $!";
$s->set_conf('fleetlog.mqtt_listen' => "127.0.0.1:$port");
# The server names the port as well when it says that the setting changed.
wait_log($s, qr/could not listen on 127\.0\.0\.1:$port\b.*HINT:/s, $at, 'a log line with a hint about the port that is taken');
like(log_since($s, $at), qr/HINT:  Another server uses this port/, 'port taken: the hint says so');
close $taken;
$s->{mqtt} = $port;
$s->wait_for_mqtt;
pass('the listener opens when the port is free, without a restart');

# Too few worker slots.
$at = -s $node->logfile;
$node->append_conf('postgresql.conf', "\nmax_worker_processes = 2\n");
$node->restart(fail_ok => 1);
wait_log($s, qr/max_worker_processes.*\d+/, $at, 'a message about worker slots');
pass('too few worker slots: the message names the setting and a number');
$node->append_conf('postgresql.conf', "\nmax_worker_processes = 40\n");
$node->restart;
$s->wait_for_mqtt;

# A database that does not exist (yet).
$at = -s $node->logfile;
$node->append_conf('postgresql.conf', "\nfleetlog.database = 'later'\n");
$node->restart;
wait_log($s, qr/"?later"?.*does not exist|later/, $at, 'a log line about the missing database');
$node->safe_psql('postgres', "CREATE DATABASE later TEMPLATE template0 ENCODING 'UTF8'");
$node->safe_psql('later', 'CREATE EXTENSION fleetlog');
$s->wait_for_mqtt;
pass('the workers come once the database and the extension are there');

is($s->crashes, '', 'no crash');
$node->stop;
done_testing();

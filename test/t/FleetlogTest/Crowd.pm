# FleetlogTest::Crowd: very many database sessions of one test, each with a statement under way.
#
# A psql for each of a thousand sessions would be a thousand processes and pipes, and pgbench does not say which session
# answered what.  So this speaks just enough of the server's protocol itself (simple query, text results) over one
# blocking socket a session.  Waiting is reading, so it costs nothing, and each read has a timeout.
package FleetlogTest::Crowd;

use strict;
use warnings;
use Carp qw(confess);
use IO::Socket::UNIX;
use Socket qw(SOL_SOCKET SO_RCVTIMEO);

# Opens n sessions to database fleetlog as the test's own user.
sub new
{
    my ($class, $server, $n) = @_;
    my $self = bless { sessions => [] }, $class;

    # Sockets of a thousand sessions are more than a shell usually gives.  The server was started before and keeps its limit.
    my $limit = $n + 200;
    system('prlimit', '--pid', $$, "--nofile=$limit:") == 0 or confess("cannot raise the number of open files to $limit; see ulimit -Hn")
      if $limit > 1024;
    push @{ $self->{sessions} }, $self->connect($server->node) for 1 .. $n;
    return $self;
}

sub connect
{
    my ($self, $node) = @_;
    my $path = $node->host . '/.s.PGSQL.' . $node->port;
    my $socket = IO::Socket::UNIX->new(Peer => $path) or confess("$path: $!");
    my $session = { socket => $socket, pid => 0, rows => [], error => '', busy => 1 };
    my $user = getpwuid($>);
    my $start = pack('N Z* Z* Z* Z* x', 196608, 'user', $user, 'database', 'fleetlog');

    setsockopt($socket, SOL_SOCKET, SO_RCVTIMEO, pack('l! l!', $FleetlogTest::TIMEOUT, 0)) or confess("SO_RCVTIMEO: $!");
    syswrite $socket, pack('N', 4 + length $start) . $start;
    $self->until_ready($session);
    confess("no session: $session->{error}") if $session->{error} ne '';
    return $session;
}

sub receive
{
    my ($self, $session, $want) = @_;
    my $data = '';

    while (length $data < $want)
    {
        my $got = sysread $session->{socket}, $data, $want - length $data, length $data;
        confess('a session gives no answer: ' . ($! || 'closed')) unless $got;
    }
    return $data;
}

# Reads messages until the server wants the next statement, or has closed with an error.
sub until_ready
{
    my ($self, $session) = @_;

    while (1)
    {
        my ($type, $length) = unpack 'a N', $self->receive($session, 5);
        my $body = $length > 4 ? $self->receive($session, $length - 4) : '';

        if ($type eq 'K') { $session->{pid} = unpack 'N', $body }
        elsif ($type eq 'D')
        {
            my ($columns, @fields) = (unpack('n', $body));
            my $at = 2;
            for (1 .. $columns)
            {
                my $bytes = unpack 'l>', substr $body, $at, 4;
                push @fields, $bytes < 0 ? undef : substr $body, $at + 4, $bytes;
                $at += 4 + ($bytes < 0 ? 0 : $bytes);
            }
            push @{ $session->{rows} }, \@fields;
        }
        elsif ($type eq 'E')
        {
            my %field = map { /^(.)(.*)/s ? ($1 => $2) : () } split /\0/, $body;
            $session->{error} = "$field{C} $field{M}";
            return if $field{V} ne 'ERROR';
        }
        elsif ($type eq 'Z')
        {
            $session->{busy} = 0;
            return;
        }
    }
}

sub count { return scalar @{ $_[0]{sessions} } }

# Server processes of sessions from .. to.
sub pids
{
    my ($self, $from, $to) = @_;
    return map { $_->{pid} } @{ $self->{sessions} }[ ($from // 0) .. ($to // $#{ $self->{sessions} }) ];
}

# Sends a statement on session i and does not wait for its answer.
sub send
{
    my ($self, $i, $sql) = @_;
    my $session = $self->{sessions}[$i];

    confess("session $i has a statement under way") if $session->{busy};
    @$session{qw(rows error busy)} = ([], '', 1);
    syswrite $session->{socket}, 'Q' . pack('N', 5 + length $sql) . "$sql\0";
    return;
}

# Has anything come on session i?
sub has_answer
{
    my ($self, $i) = @_;
    my $set = '';

    vec($set, fileno $self->{sessions}[$i]{socket}, 1) = 1;
    return select($set, undef, undef, 0) > 0;
}

# The rows that session i was answered, each an array of texts; dies on an error of the statement.
sub take
{
    my ($self, $i) = @_;
    my $session = $self->{sessions}[$i];

    $self->until_ready($session) if $session->{busy};
    confess("session $i: $session->{error}") if $session->{error} ne '';
    return @{ $session->{rows} };
}

sub query
{
    my ($self, $i, $sql) = @_;
    $self->send($i, $sql);
    return $self->take($i);
}

# What the kernel says that these processes did so far: times they were put on a CPU, and clock ticks used there.
sub work
{
    my (@pids) = @_;
    my %sum = (switches => 0, ticks => 0);

    for my $pid (@pids)
    {
        my $status = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status");
        $sum{switches} += $1 while $status =~ /^(?:non)?voluntary_ctxt_switches:\s+(\d+)/mg;
        # Behind the name, which may have spaces: state is field 3, utime and stime are 14 and 15.
        my @stat = split ' ', PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat") =~ s/^.*\)//sr;
        $sum{ticks} += $stat[11] + $stat[12];
    }
    return \%sum;
}

sub close_all
{
    my ($self) = @_;
    close $_->{socket} for @{ $self->{sessions} };
    $self->{sessions} = [];
    return;
}

1;

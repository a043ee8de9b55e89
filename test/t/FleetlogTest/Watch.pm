# FleetlogTest::Watch: a state table with writers that number what they do to each key, a fleetlog-watch process, and a
# checker that folds what it printed.
#
# Operation n of a key sets it to payload n; where n is a multiple of 4 it clears it. So the event that must follow any
# other one of that key is known, also behind a clear, which carries no number: a gap, a duplicate and a wrong order are
# all seen at once, without asking the writers.
package FleetlogTest::Watch;

use strict;
use warnings;
use Carp qw(confess);
use IPC::Run;
use JSON::PP;

our $CLEAR_EVERY = 4;

# Makes the table, unless the test has one, the counters, and write_keys(n): one transaction over n keys.
sub setup
{
    my ($s, $table, $keys) = @_;
    $s->sql(<<SQL);
CREATE TABLE IF NOT EXISTS $table (stream regclass, key text, shard int, log_offset bigint, ts timestamptz, tenant text, device text,
    headers fleetlog.headers, payload bytea, PRIMARY KEY (stream, key));
CREATE TABLE key_count (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO key_count SELECT i FROM generate_series(1, $keys) i;
CREATE SEQUENCE offsets;
CREATE FUNCTION write_keys(how_many int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE r record;
BEGIN
    FOR r IN UPDATE key_count SET n = n + 1 WHERE id IN (SELECT id FROM key_count WHERE id IN (SELECT 1 + (random() * ($keys - 1))::int FROM generate_series(1, how_many)) ORDER BY id FOR UPDATE) RETURNING id, n LOOP
        IF r.n % $CLEAR_EVERY = 0 THEN
            DELETE FROM $table WHERE key = CASE WHEN r.id % 2 = 0 THEN 'even/' ELSE 'odd/' END || r.id;
        ELSE
            INSERT INTO $table VALUES ('pg_class', CASE WHEN r.id % 2 = 0 THEN 'even/' ELSE 'odd/' END || r.id, 0, nextval('offsets'), clock_timestamp(), NULL, NULL, NULL, r.n::text::bytea)
                ON CONFLICT (stream, key) DO UPDATE SET log_offset = excluded.log_offset, ts = excluded.ts, payload = excluded.payload;
        END IF;
    END LOOP;
    IF random() < 0.05 THEN RAISE EXCEPTION 'rolled back on purpose' USING ERRCODE = 'P0002'; END IF;
END \$\$;
CREATE PROCEDURE write_many(transactions int) LANGUAGE plpgsql AS \$\$
BEGIN
    FOR i IN 1 .. transactions LOOP
        BEGIN
            PERFORM write_keys(1 + (random() * random() * 20)::int);
        EXCEPTION WHEN no_data_found THEN NULL;
        END;
        COMMIT;
    END LOOP;
END \$\$;
SQL
    return;
}

# A watcher whose output goes to a file, as a consumer would keep it.
sub start
{
    my ($class, $s, $table, $file, @options) = @_;
    my $self = bless { file => $file, err => "$file.err" }, $class;
    $self->{run} = IPC::Run::start(
        [ 'fleetlog-watch', '-d', $s->node->connstr('fleetlog'), @options, $table ],
        '<', \undef, '>', $file, '2>', $self->{err});
    return $self;
}

sub lines
{
    my ($self) = @_;
    open my $f, '<', $self->{file} or confess("$self->{file}: $!");
    local $/;
    my $text = <$f> // '';
    close $f;
    # A killed process may leave half a line behind.
    $text =~ s/[^\n]*\z//;
    return split /\n/, $text;
}

sub stop
{
    my ($self) = @_;
    $self->{run}->signal('TERM');
    $self->{run}->finish;
    return $self->{run}->result(0);
}

sub kill9
{
    my ($self) = @_;
    $self->{run}->kill_kill(grace => 0);
    return;
}

sub errors
{
    my ($self) = @_;
    return PostgreSQL::Test::Utils::slurp_file($self->{err});
}

# ---- the checker ----

package FleetlogTest::Watch::Fold;

sub new
{
    my ($class) = @_;
    return bless { state => {}, next => {}, faults => [], position => undef, snapshots => 0, changes => 0, json => JSON::PP->new->utf8 }, $class;
}

sub fault
{
    my ($self, $text) = @_;
    push @{ $self->{faults} }, $text if @{ $self->{faults} } < 5;
    return;
}

# What may come next of a key: a number, or for a key that was never seen or is absent in a snapshot, any that follows a clear.
sub expect
{
    my ($self, $key, $n) = @_;
    my $want = $self->{next}{$key};
    return if !defined $want;
    if ($want eq 'any')
    {
        $self->fault("$key: $n follows a clear") unless $n % $FleetlogTest::Watch::CLEAR_EVERY == 1;
        return;
    }
    $self->fault("$key: expected $want, got $n") unless $want == $n;
    return;
}

sub line
{
    my ($self, $line) = @_;
    my $e = eval { $self->{json}->decode($line) };
    if (!$e) { $self->fault("no JSON: $line"); return; }
    my $key = $e->{key};

    $self->{position} = $self->{json}->canonical->encode($e->{position}) if $e->{position} && $e->{event} ne 'row';
    if ($e->{event} eq 'begin-snapshot')
    {
        $self->{between} = {};
        $self->{snapshots}++;
    }
    elsif ($e->{event} eq 'row')
    {
        $self->fault("row outside of a snapshot") unless $self->{between};
        $self->{between}{$key} = $e->{payload};
    }
    elsif ($e->{event} eq 'end-snapshot')
    {
        $self->{state} = delete $self->{between};
        # Absent keys: their clear is not numbered here, so any set that begins a new life may follow.
        $self->{next}{$_} = 'any' for keys %{ $self->{next} };
        $self->{absent} = 'any';
        $self->{next}{$_} = $self->{state}{$_} + 1 for keys %{ $self->{state} };
    }
    elsif ($e->{event} eq 'set')
    {
        $self->{next}{$key} //= $self->{absent};
        $self->expect($key, $e->{payload});
        $self->fault("$key: $e->{payload} must be a clear") if $e->{payload} % $FleetlogTest::Watch::CLEAR_EVERY == 0;
        $self->{state}{$key} = $e->{payload};
        $self->{next}{$key} = $e->{payload} + 1;
        $self->{changes}++;
    }
    elsif ($e->{event} eq 'clear')
    {
        my $n = $self->{next}{$key};
        $self->fault("$key: cleared while expecting " . ($n // 'nothing')) unless defined $n && $n ne 'any' && $n % $FleetlogTest::Watch::CLEAR_EVERY == 0;
        delete $self->{state}{$key};
        $self->{next}{$key} = defined $n && $n ne 'any' ? $n + 1 : 'any';
        $self->{changes}++;
    }
    elsif ($e->{event} ne 'progress') { $self->fault("unknown event $e->{event}"); }
    $self->fault("an event between the marks") if $self->{between} && $e->{event} !~ /snapshot|row/;
    return;
}

# A watcher died: what it printed between the marks without the second one counts for nothing.
sub interrupted
{
    my ($self) = @_;
    delete $self->{between};
    return;
}

# '' when the folded state is what the table has now.
sub differs_from
{
    my ($self, $s, $table, $where) = @_;
    my %have = map { split /\|/ } split /\n/, $s->sql("SELECT key || '|' || fleetlog.text(payload) FROM $table WHERE $where");
    my @wrong = grep { ($self->{state}{$_} // '') ne ($have{$_} // '') } keys %{ { %have, %{ $self->{state} } } };
    return join ' ', map { "$_: folded " . ($self->{state}{$_} // 'none') . ', table ' . ($have{$_} // 'none') } splice @wrong, 0, 3;
}

1;
